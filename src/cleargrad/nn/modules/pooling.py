"""Pooling layers: maxima, means and norms over windows. Read next: nn/modules/batchnorm.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import functional as F
from cleargrad.nn.module import Module
from cleargrad.nn.modules.utils import _ntuple

# Maxima ----------------------------------------------------------------------------------------------------


class _MaxPoolNd(Module):
    """What MaxPool1d to MaxPool3d share."""

    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """Maxima over windows of (N, C, L) or (C, L)."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """Maxima over windows of (N, C, H, W) or (C, H, W)."""

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """Maxima over windows of (N, C, D, H, W) or (C, D, H, W)."""

    function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    """What MaxUnpool1d to MaxUnpool3d share: maxima go back to the places that the indices name."""

    spatial: int
    function: Callable[..., Tensor]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        per_dim = _ntuple(self.spatial)
        self.kernel_size = per_dim(kernel_size)
        self.stride = per_dim(kernel_size if stride is None else stride)
        self.padding = per_dim(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """The inverse of MaxPool1d, as far as there is one."""

    spatial = 1
    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """The inverse of MaxPool2d, as far as there is one."""

    spatial = 2
    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """The inverse of MaxPool3d, as far as there is one."""

    spatial = 3
    function = staticmethod(F.max_unpool3d)


# Means -----------------------------------------------------------------------------------------------------


class _AvgPoolNd(Module):
    """What AvgPool1d to AvgPool3d share."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """Means over windows of (N, C, L) or (C, L)."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        per_dim = _ntuple(1)
        self.kernel_size = per_dim(kernel_size)
        self.stride = per_dim(kernel_size if stride is None else stride)
        self.padding = per_dim(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPoolPlane(_AvgPoolNd):
    """AvgPool2d and AvgPool3d, whose divisor can be given."""

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]
    function: Callable[..., Tensor]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolPlane):
    """Means over windows of (N, C, H, W) or (C, H, W)."""

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolPlane):
    """Means over windows of (N, C, D, H, W) or (C, D, H, W)."""

    function = staticmethod(F.avg_pool3d)


# Norms -----------------------------------------------------------------------------------------------------


class _LPPoolNd(Module):
    """What LPPool1d to LPPool3d share."""

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    function: Callable[..., Tensor]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """p-norms over windows of (N, C, L) or (C, L)."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """p-norms over windows of (N, C, H, W) or (C, H, W)."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """p-norms over windows of (N, C, D, H, W) or (C, D, H, W)."""

    function = staticmethod(F.lp_pool3d)


# As many windows as are asked for --------------------------------------------------------------------------


class _FractionalMaxPoolNd(Module):
    """Maxima over windows at random places, for an output size or a ratio of sizes."""

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    spatial: int
    function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name, per_dim = type(self).__name__, _ntuple(self.spatial)
        self.kernel_size = per_dim(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_dim(output_size)
        self.output_ratio = None if output_ratio is None else per_dim(output_ratio)
        if output_size is None and output_ratio is None:
            rule = f"{name} requires specifying either an output size, or a pooling ratio"
            raise error(ValueError, name, rule)
        if output_size is not None and output_ratio is not None:
            raise error(ValueError, name, "only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise error(ValueError, name, f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return type(self).function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Fractional max pooling of (N, C, H, W) or (C, H, W)."""

    spatial = 2
    function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional max pooling of (N, C, D, H, W) or (C, D, H, W)."""

    spatial = 3
    function = staticmethod(F.fractional_max_pool3d)


class _AdaptiveAvgPoolNd(Module):
    """What AdaptiveAvgPool1d to AdaptiveAvgPool3d share."""

    __constants__ = ["output_size"]
    function: Callable[..., Tensor]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over evenly spread windows of (N, C, L) or (C, L)."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means over evenly spread windows of (N, C, H, W) or (C, H, W)."""

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means over evenly spread windows of (N, C, D, H, W) or (C, D, H, W)."""

    function = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(Module):
    """What AdaptiveMaxPool1d to AdaptiveMaxPool3d share."""

    __constants__ = ["output_size", "return_indices"]
    function: Callable[..., Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over evenly spread windows of (N, C, L) or (C, L)."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over evenly spread windows of (N, C, H, W) or (C, H, W)."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over evenly spread windows of (N, C, D, H, W) or (C, D, H, W)."""

    function = staticmethod(F.adaptive_max_pool3d)
