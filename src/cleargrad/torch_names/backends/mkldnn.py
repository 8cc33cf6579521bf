"""torch.backends.mkldnn: Intel's kernels for networks (oneDNN), which cleargrad does without.

Read next: torch_names/backends/openmp.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from cleargrad.backends import switched
from cleargrad.backends.mkl import verbose as verbose

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2
enabled = True
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"


def is_available() -> bool:
    return False


def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool | None = True,
    fp32_precision: str = "none",
) -> AbstractContextManager[None]:
    """Inside, the switches have these values."""
    return switched(
        globals(),
        enabled=enabled,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )
