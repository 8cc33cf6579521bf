"""torch._dynamo.utils: what the compiler can do, for libraries that ask.

Read next: torch_names/_inductor/__init__.py.
"""

from __future__ import annotations


def is_compile_supported(device_type: str) -> bool:
    """Whether PyTorch's compiler is there: no."""
    return False
