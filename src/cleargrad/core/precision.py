"""Whether products of float32 may drop digits, as a GPU's tensor cores do (TF32): PyTorch's switches and defaults.

On the CPU all digits count. Read next: core/pace.py.
"""

from __future__ import annotations

from collections.abc import Callable

from cleargrad.core.mode import settle


class Tf32:
    """Where TF32 is allowed."""

    products = False  # torch.backends.cuda.matmul.allow_tf32, set_float32_matmul_precision
    convolutions = True  # torch.backends.cudnn.allow_tf32


when_changed: list[Callable[[], None]] = []  # who keeps programs that were made for other switches


def allow_tf32(where: str, allowed: bool) -> None:
    """Allows it in `products` or `convolutions`. What waits was asked for before; programs are made anew."""
    if getattr(Tf32, where) == allowed:
        return
    settle()
    setattr(Tf32, where, allowed)
    for told in when_changed:
        told()


def switches() -> tuple[bool, bool]:
    return Tf32.products, Tf32.convolutions
