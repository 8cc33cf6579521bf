"""Convolutions over one to three spatial dimensions, plain and transposed, and their lazy forms.

Read next: nn/modules/pooling.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import functional as F
from cleargrad.nn import init
from cleargrad.nn.module import Module
from cleargrad.nn.modules.lazy import LazyModuleMixin
from cleargrad.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from cleargrad.nn.parameter import Parameter, UninitializedParameter
from cleargrad.ops.creation import empty

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share; sizes are tuples with an entry per spatial dimension."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    spatial: int
    function: Callable[..., Tensor]
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._check()
        self._reversed_padding_repeated_twice = self._pad_widths()
        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(self) -> None:
        name = type(self).__name__
        if self.groups <= 0:
            raise error(ValueError, name, "groups must be a positive integer", groups=self.groups)
        if self.in_channels % self.groups:
            rule = "in_channels must be divisible by groups"
            raise error(ValueError, name, rule, in_channels=self.in_channels, groups=self.groups)
        if self.out_channels % self.groups:
            rule = "out_channels must be divisible by groups"
            raise error(ValueError, name, rule, out_channels=self.out_channels, groups=self.groups)
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                rule = f"Invalid padding string {self.padding!r}, should be one of 'valid', 'same'"
                raise error(ValueError, name, rule)
            if self.padding == "same" and any(step != 1 for step in self.stride):
                raise error(ValueError, name, "padding='same' is not supported for strided convolutions")
        if self.padding_mode not in PADDING_MODES:
            rule = f"padding_mode must be one of {PADDING_MODES}, but got padding_mode='{self.padding_mode}'"
            raise error(ValueError, name, rule)

    def _pad_widths(self) -> Sequence[int]:
        """The padding as `pad` takes it, for padding modes that the convolution itself lacks."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        widths = [0] * (2 * len(self.kernel_size))
        if self.padding == "same":
            for number, (step, extent) in enumerate(zip(self.dilation, self.kernel_size, strict=True)):
                total = step * (extent - 1)
                place = 2 * (len(self.kernel_size) - 1 - number)
                widths[place : place + 2] = total // 2, total - total // 2
        return widths

    def _weight_shape(self) -> tuple[int, ...]:
        inputs, outputs = self.in_channels, self.out_channels
        channels = (inputs, outputs // self.groups) if self.transposed else (outputs, inputs // self.groups)
        return (*channels, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Draws weight and bias from ±1/√fan_in."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = 0
        return type(self).function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        if self.padding != (0,) * len(self.kernel_size):
            text += f", padding={self.padding}"
        if any(step != 1 for step in self.dilation):
            text += f", dilation={self.dilation}"
        if any(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _PlainConv(_ConvNd):
    """The constructor and forward of Conv1d to Conv3d."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        per_dim = _ntuple(self.spatial)
        super().__init__(
            in_channels,
            out_channels,
            per_dim(kernel_size),
            per_dim(stride),
            padding if isinstance(padding, str) else per_dim(padding),
            per_dim(dilation),
            False,
            per_dim(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_PlainConv):
    """Convolution of (N, C, L) or (C, L)."""

    spatial = 1
    function = staticmethod(F.conv1d)


class Conv2d(_PlainConv):
    """Convolution of (N, C, H, W) or (C, H, W)."""

    spatial = 2
    function = staticmethod(F.conv2d)


class Conv3d(_PlainConv):
    """Convolution of (N, C, D, H, W) or (C, D, H, W)."""

    spatial = 3
    function = staticmethod(F.conv3d)


# Transposed ------------------------------------------------------------------------------------------------


class _ConvTransposeNd(_ConvNd):
    """The constructor and forward of ConvTranspose1d to ConvTranspose3d."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            rule = f'Only "zeros" padding mode is supported for {type(self).__name__}'
            raise error(ValueError, type(self).__name__, rule)
        per_dim = _ntuple(self.spatial)
        super().__init__(
            in_channels,
            out_channels,
            per_dim(kernel_size),
            per_dim(stride),
            per_dim(padding),
            per_dim(dilation),
            True,
            per_dim(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = self._output_padding(input, output_size)
        return type(self).function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """What must be added at the far ends for the output to have the size that is asked for."""
        name, spatial = type(self).__name__, self.spatial
        leading = input.dim() - spatial
        if len(output_size) == leading + spatial:
            output_size = output_size[leading:]
        if len(output_size) != spatial:
            rule = (
                f"for {input.dim()}D input, output_size must have {spatial} or {leading + spatial} elements"
            )
            raise error(ValueError, name, f"{rule} (got {len(output_size)})")
        smallest = [
            (input.size(leading + k) - 1) * self.stride[k]
            - 2 * int(self.padding[k])
            + self.dilation[k] * (self.kernel_size[k] - 1)
            + 1
            for k in range(spatial)
        ]
        largest = [size + self.stride[k] - 1 for k, size in enumerate(smallest)]
        for low, size, high in zip(smallest, output_size, largest, strict=True):
            if not low <= size <= high:
                rule = (
                    f"requested an output size of {list(output_size)}, but valid sizes range from {smallest}"
                )
                raise error(ValueError, name, f"{rule} to {largest} (for an input of {input.size()[2:]})")
        return tuple(size - low for size, low in zip(output_size, smallest, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of (N, C, L) or (C, L)."""

    spatial = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of (N, C, H, W) or (C, H, W)."""

    spatial = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of (N, C, D, H, W) or (C, D, H, W)."""

    spatial = 3
    function = staticmethod(F.conv_transpose3d)


# Lazy ------------------------------------------------------------------------------------------------------


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution that takes in_channels from its first input."""

    spatial: int
    in_channels: int
    groups: int
    weight: Any
    bias: Any

    def __init__(self, out_channels: int, kernel_size: Any, *args: Any, **kwargs: Any) -> None:
        factory: dict[str, Any] = {name: kwargs.get(name) for name in ("device", "dtype")}
        # The parameters come later, so there is nothing to draw and no channels to divide into groups.
        super().__init__(0, 0, kernel_size, *args, **kwargs)
        wants_bias = self.bias is not None
        self.weight = UninitializedParameter(**factory)
        self.out_channels = out_channels
        if wants_bias:
            self.bias = UninitializedParameter(**factory)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        spatial = self.spatial
        if input.dim() not in (spatial + 1, spatial + 2):
            rule = f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input"
            raise error(RuntimeError, type(self).__name__, rule, input=input)
        self.in_channels = input.shape[-spatial - 1]
        if self.in_channels % self.groups:
            rule = "in_channels must be divisible by groups"
            raise error(
                ValueError, type(self).__name__, rule, in_channels=self.in_channels, groups=self.groups
            )
        with no_grad():
            self.weight.materialize(self._weight_shape())
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


def lazy(name: str, becomes: type[_ConvNd]) -> type:
    """The lazy form of a convolution."""
    body = {
        "__doc__": f"{becomes.__name__} that takes in_channels from its first input.",
        "__module__": __name__,
    }
    return type(name, (_LazyConvXdMixin, becomes), {**body, "cls_to_become": becomes})


LazyConv1d = lazy("LazyConv1d", Conv1d)
LazyConv2d = lazy("LazyConv2d", Conv2d)
LazyConv3d = lazy("LazyConv3d", Conv3d)
LazyConvTranspose1d = lazy("LazyConvTranspose1d", ConvTranspose1d)
LazyConvTranspose2d = lazy("LazyConvTranspose2d", ConvTranspose2d)
LazyConvTranspose3d = lazy("LazyConvTranspose3d", ConvTranspose3d)
