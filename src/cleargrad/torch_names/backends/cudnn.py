"""torch.backends.cudnn: the switches of a library for GPUs, which is not here. Read next: backends/cuda.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from cleargrad.backends import switched
from cleargrad.core import precision

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
fp32_precision = "none"
depthwise_kernel = "auto"


class Switches(ModuleType):
    """This module, one of whose switches is not a mere note."""

    @property
    def allow_tf32(self) -> bool:
        """Whether convolutions of float32 on a GPU may drop digits."""
        return precision.Tf32.convolutions

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        precision.allow_tf32("convolutions", bool(allowed))


sys.modules[__name__].__class__ = Switches


def is_available() -> bool:
    return False


def version() -> int | None:
    return None


def is_acceptable(tensor: Any) -> bool:
    return False


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> Iterator[None]:
    """Inside, the switches have these values."""
    before = precision.Tf32.convolutions
    others = switched(
        globals(),
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        fp32_precision=fp32_precision,
        depthwise_kernel=depthwise_kernel,
    )
    with others:
        precision.allow_tf32("convolutions", allow_tf32)
        try:
            yield
        finally:
            precision.allow_tf32("convolutions", before)
