"""Padding layers. Read next: nn/modules/pixelshuffle.py."""

from __future__ import annotations

from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import functional as F
from cleargrad.nn.module import Module
from cleargrad.nn.modules.utils import _ntuple


class _PadNd(Module):
    """What the padding layers share: widths for both ends of each spatial dimension, the last one first."""

    __constants__ = ["padding"]
    mode: str  # as `pad` calls it
    ends: int  # twice the number of spatial dimensions

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(self.ends)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    """Entries of one value around the tensor."""

    __constants__ = ["padding", "value"]

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """One value around the last dimension."""

    ends = 2


class ConstantPad2d(_ConstantPadNd):
    """One value around the last two dimensions."""

    ends = 4


class ConstantPad3d(_ConstantPadNd):
    """One value around the last three dimensions."""

    ends = 6


class ZeroPad1d(ConstantPad1d):
    """Zeros around the last dimension."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Zeros around the last two dimensions."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Zeros around the last three dimensions."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    """The tensor mirrored at its edges."""

    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Mirrors the last dimension at its edges."""

    ends = 2


class ReflectionPad2d(_ReflectionPadNd):
    """Mirrors the last two dimensions at their edges."""

    ends = 4


class ReflectionPad3d(_ReflectionPadNd):
    """Mirrors the last three dimensions at their edges."""

    ends = 6


class _ReplicationPadNd(_PadNd):
    """The entries at the edges repeated."""

    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Repeats the edges of the last dimension."""

    ends = 2


class ReplicationPad2d(_ReplicationPadNd):
    """Repeats the edges of the last two dimensions."""

    ends = 4


class ReplicationPad3d(_ReplicationPadNd):
    """Repeats the edges of the last three dimensions."""

    ends = 6


class _CircularPadNd(_PadNd):
    """The tensor as one of many copies side by side."""

    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        spatial = self.ends // 2
        if input.dim() not in (spatial + 1, spatial + 2):
            rule = f"expected {spatial + 1}D or {spatial + 2}D input (got {input.dim()}D input)"
            raise error(ValueError, type(self).__name__, rule, input=input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Goes around the last dimension."""

    ends = 2


class CircularPad2d(_CircularPadNd):
    """Goes around the last two dimensions."""

    ends = 4


class CircularPad3d(_CircularPadNd):
    """Goes around the last three dimensions."""

    ends = 6
