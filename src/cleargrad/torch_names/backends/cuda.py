"""torch.backends.cuda: how matrix products and attention would be computed on a GPU.

Read next: nn/attention/__init__.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cleargrad import settings
from cleargrad.errors import error


class Matmul:
    """Switches of matrix products; allow_tf32 is another form of set_float32_matmul_precision."""

    __slots__ = (
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
        "allow_fp16_reduced_precision_reduction",
        "fp32_precision",
    )

    def __init__(self) -> None:
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False
        self.fp32_precision = "none"

    @property
    def allow_tf32(self) -> bool:
        return settings.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        settings.set_float32_matmul_precision("high" if value else "highest")


class Attention:
    """Which ways to compute attention are allowed."""

    flash = math = mem_efficient = cudnn = True
    reduced = False


matmul = Matmul()


def is_built() -> bool:
    return False


def enable_flash_sdp(enabled: bool) -> None:
    Attention.flash = enabled


def flash_sdp_enabled() -> bool:
    return Attention.flash


def enable_math_sdp(enabled: bool) -> None:
    Attention.math = enabled


def math_sdp_enabled() -> bool:
    return Attention.math


def enable_mem_efficient_sdp(enabled: bool) -> None:
    Attention.mem_efficient = enabled


def mem_efficient_sdp_enabled() -> bool:
    return Attention.mem_efficient


def enable_cudnn_sdp(enabled: bool) -> None:
    Attention.cudnn = enabled


def cudnn_sdp_enabled() -> bool:
    return Attention.cudnn


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    Attention.reduced = enabled


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    return Attention.reduced


def is_flash_attention_available() -> bool:
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Inside, only some ways to compute attention are allowed; the old form of nn.attention.sdpa_kernel."""
    before = Attention.flash, Attention.math, Attention.mem_efficient, Attention.cudnn
    chosen = enable_flash, enable_math, enable_mem_efficient, enable_cudnn
    Attention.flash, Attention.math, Attention.mem_efficient, Attention.cudnn = chosen
    try:
        yield
    finally:
        Attention.flash, Attention.math, Attention.mem_efficient, Attention.cudnn = before


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library for linear algebra on a GPU; a wish is accepted and comes to nothing."""
    if backend not in (None, "default", "cusolver", "magma"):
        rule = "Unknown input value. Choose from: default, cusolver, magma."
        raise error(RuntimeError, "preferred_linalg_library", rule, backend=backend)
    return "default"
