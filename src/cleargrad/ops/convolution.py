"""Convolutions, plain and transposed, over one to three spatial dimensions.

Three ops are each other's adjoints, so that gradients of any order stay among them: `convolve` (x, w), its
adjoint in x (a transposed convolution) and its adjoint in w. Shapes are x (N, C, *S), w (O, C/groups, *K) and
the result (N, O, *T). Kernels are in devices/cpu/arrays/native.py. Read next: ops/pooling.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec, as_index
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.arrays import convolution as kernels
from cleargrad.devices.cpu.arrays import native
from cleargrad.errors import error
from cleargrad.ops.declare import composite, opaque
from cleargrad.ops.padding import pad_constant
from cleargrad.ops.pointwise import conj
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor

# Arguments -------------------------------------------------------------------------------------------------


def per_dimension(op: str, name: str, value: Any, count: int) -> tuple[int, ...]:
    """One int per spatial dimension, from an int or a sequence of them."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    values = tuple(entry if type(entry) is int else as_index(op, entry) for entry in values)
    if len(values) == 1:
        return values * count
    if len(values) != count:
        rule = f"expected {name} to be a single integer or {count} of them, but got {name}={list(values)}"
        raise error(RuntimeError, op, rule)
    return values


def named(transposed: bool, spatial: int) -> str:
    return f"conv_transpose{spatial}d" if transposed else f"conv{spatial}d"


def check_operands(op: str, x: Tensor, w: Tensor, bias: Tensor | None, groups: int, transposed: bool) -> None:
    """Ranks, channels and dtypes; `x` may lack its batch dimension."""
    spatial = w._form.ndim - 2
    check_rank(op, x, w, spatial)
    outputs, per_group, *kernel = w._form.shape
    inputs = outputs if transposed else per_group * groups
    results = per_group * groups if transposed else outputs
    if groups <= 0:
        raise error(RuntimeError, op, "non-positive groups is not supported", groups=groups)
    if outputs % groups or outputs == 0:
        rule = f"the weight's dimension 0 must be a positive multiple of groups={groups}, but it is {outputs}"
        raise error(RuntimeError, op, rule, weight=w, groups=groups)
    if x._form.shape[-1 - spatial] != inputs:
        raise channel_error(op, x, w, groups, inputs, transposed)
    if 0 in kernel:
        raise error(RuntimeError, op, "kernel size should be greater than zero", weight=w)
    if bias is not None and bias._form.shape != (results,):
        rule = f"expected bias to be 1-dimensional with {results} elements, one per output channel"
        raise error(RuntimeError, op, rule, weight=w, bias=bias)
    for name, other in (("weight", w), ("bias", bias)):
        if other is not None and other._form.dtype != x._form.dtype:
            rule = f"expected input and {name} to have the same dtype, but got {x.dtype} and {other.dtype}"
            fix = f"convert with input.to({other.dtype}), or the module with .to(input.dtype)"
            raise error(RuntimeError, op, rule, input=x, **{name: other}, fix=fix)
    if x._form.dtype.kind == "b" and x._form.size:
        raise error(RuntimeError, op, "not implemented for torch.bool", input=x)


PLANES = {1: "(batch, channels, length)", 2: "(batch, channels, height, width)"}
PLANES[3] = "(batch, channels, depth, height, width)"


def check_rank(op: str, x: Tensor, w: Tensor, spatial: int) -> None:
    rank = x._form.ndim
    if rank in (spatial + 1, spatial + 2):
        return
    rule = f"expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input, but got {rank}D"
    fix = f"reshape the input to {PLANES[spatial]}"
    if spatial + 2 < rank <= 5:
        fix += f", or use {op.replace(f'{spatial}d', f'{rank - 2}d')}"
    raise error(RuntimeError, op, rule, input=x, weight=w, fix=fix)


def channel_error(op: str, x: Tensor, w: Tensor, groups: int, expected: int, transposed: bool) -> Exception:
    """The error most newcomers meet: it says which dimension was read as channels and how to mend it."""
    shape, spatial = x._form.shape, w._form.ndim - 2
    given, batched = shape[-1 - spatial], len(shape) == spatial + 2
    source = "weight.shape[0]" if transposed else "weight.shape[1]" + (" * groups" if groups > 1 else "")
    rule = (
        f"expected input to have {expected} channels ({source}) in dimension {len(shape) - 1 - spatial}, "
        f"but got {given}"
    )
    if batched and shape[-1] == expected:
        order = (0, spatial + 1, *range(1, spatial + 1))
        fix = f"the channels seem to be last: input.permute{order}"
    elif not batched:
        fix = f"an input of {len(shape)} dimensions is taken as one sample (channels first): "
        fix += (
            "input.unsqueeze(1) adds the channel dimension to a batch"
            if expected == 1
            else (f"a batch has the shape {PLANES[spatial]}")
        )
    else:
        fix = f"make the layer with in_channels={given}, or give it {expected} channels"
    facts = {"groups": groups} if groups > 1 else {}
    return error(RuntimeError, op, rule, input=x, weight=w, **facts, fix=fix)


def check_steps(op: str, stride: tuple, padding: tuple, dilation: tuple, output_padding: tuple = ()) -> None:
    if min(stride) <= 0:
        raise error(RuntimeError, op, "non-positive stride is not supported", stride=stride)
    if min(padding) < 0:
        raise error(RuntimeError, op, "negative padding is not supported", padding=padding)
    if min(dilation) <= 0:
        raise error(RuntimeError, op, "dilation should be greater than zero", dilation=dilation)
    if any(extra < 0 for extra in output_padding):
        raise error(
            RuntimeError, op, "negative output_padding is not supported", output_padding=output_padding
        )
    if any(extra >= max(s, d) for extra, s, d in zip(output_padding, stride, dilation)):
        rule = "output padding must be smaller than either stride or dilation"
        raise error(RuntimeError, op, rule, output_padding=output_padding, stride=stride, dilation=dilation)


# The three ops ---------------------------------------------------------------------------------------------


def convolve_spec(
    x: Tensor, w: Tensor, bias: Tensor | None, *, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Spec:
    op = named(False, w._form.ndim - 2)
    check_operands(op, x, w, bias, groups, transposed=False)
    check_steps(op, stride, padding, dilation)
    kernel = w._form.shape[2:]
    extents = tuple(n + 2 * p for n, p in zip(x._form.shape[-len(kernel) :], padding))
    if any(n < d * (k - 1) + 1 for n, k, d in zip(extents, kernel, dilation)):
        reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation))
        rule = f"the kernel, which spans {reach}, can't be greater than the padded input, {extents}"
        fix = "use a larger input, more padding, or fewer layers that shrink the input before this one"
        raise error(RuntimeError, op, rule, input=x, weight=w, padding=padding, dilation=dilation, fix=fix)
    size = kernels.output_size(x._form.shape[-len(kernel) :], kernel, stride, padding, dilation)
    return Spec((*x._form.shape[: -len(kernel) - 1], w._form.shape[0], *size), x.dtype)


def convolve_input_spec(
    g: Tensor,
    w: Tensor,
    bias: Tensor | None,
    *,
    size: tuple,
    stride: tuple,
    padding: tuple,
    dilation: tuple,
    groups: int,
) -> Spec:
    spatial = w._form.ndim - 2
    op = named(True, spatial)
    check_operands(op, g, w, bias, groups, transposed=True)
    check_steps(op, stride, padding, dilation)
    if min(size) < 1:
        rule = f"the output size, calculated as {size}, is too small"
        raise error(RuntimeError, op, rule, input=g, weight=w, padding=padding, fix="use less padding")
    return Spec((*g._form.shape[: -spatial - 1], w._form.shape[1] * groups, *size), g.dtype)


def convolve_weight_spec(
    g: Tensor, x: Tensor, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> Spec:
    return Spec((g._form.shape[1], x._form.shape[1] // groups, *kernel), x.dtype)


def run_convolve(x, w, bias, *, stride, padding, dilation, groups) -> np.ndarray:
    return native.convolve(x, w, stride, padding, dilation, groups, bias)


def run_convolve_input(g, w, bias, *, size, stride, padding, dilation, groups) -> np.ndarray:
    return native.convolve_input(g, w, size, stride, padding, dilation, groups, bias)


def run_convolve_weight(g, x, *, kernel, stride, padding, dilation, groups) -> np.ndarray:
    return native.convolve_weight(g, x, kernel, stride, padding, dilation, groups)


def sum_channels(g: Tensor) -> Tensor:
    """The gradient of a bias: everything but the channels is summed."""
    return g.sum((0, *range(2, g._form.ndim)))


def only(result: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The first positions, where output_padding left room for windows the operand never had."""
    for dim, extent in enumerate(shape):
        if result._form.shape[dim] > extent:
            result = result.narrow(dim, 0, extent)
    return result


# attrs: stride, padding, dilation, groups, the same for all three
convolve = opaque(
    "convolution",
    spec=convolve_spec,
    run=run_convolve,
    vjp=(
        lambda g, w, *, x_shape, stride, padding, dilation, groups: convolve_input(
            g,
            conj(w),
            None,
            size=x_shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
        lambda g, x, *, w_shape, stride, padding, dilation, groups: convolve_weight(
            g, conj(x), kernel=w_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
        sum_channels,
    ),
    samples=lambda: iter(door_samples()),
)
convolve_input = opaque(
    "convolution_adjoint_input",
    spec=convolve_input_spec,
    run=run_convolve_input,
    vjp=(
        lambda c, w, *, g_shape, stride, padding, dilation, groups: only(
            convolve(c, conj(w), None, stride=stride, padding=padding, dilation=dilation, groups=groups),
            g_shape,
        ),
        lambda c, g, *, w_shape, stride, padding, dilation, groups: convolve_weight(
            conj(g), c, kernel=w_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
        sum_channels,
    ),
    samples=lambda: iter(
        [
            Sample(real(2, 4, 2), real(4, 1, 3), real(2), size=(5,), stride=(2,), padding=(1,), dilation=(1,),
                   groups=2),
            Fails(RuntimeError, real(2, 3, 2), real(4, 1, 3), None, size=(5,), stride=(2,), padding=(1,),
                  dilation=(1,), groups=2),
        ]
    ),
    node="ConvolutionBackward0",
)  # fmt: skip
convolve_weight = opaque(
    "convolution_adjoint_weight",
    spec=convolve_weight_spec,
    run=run_convolve_weight,
    vjp=(
        lambda c, x, *, g_shape, stride, padding, dilation, groups: only(
            convolve(conj(x), c, None, stride=stride, padding=padding, dilation=dilation, groups=groups),
            g_shape,
        ),
        lambda c, g, *, x_shape, stride, padding, dilation, groups: convolve_input(
            conj(g),
            c,
            None,
            size=x_shape[2:],
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        ),
    ),
    samples=lambda: iter(
        [
            Sample(
                real(2, 4, 3), real(2, 2, 5), kernel=(3,), stride=(2,), padding=(1,), dilation=(1,), groups=2
            )
        ]
    ),
)


def door_samples() -> Iterator[Sample]:
    same = {"stride": (1,), "padding": (0,), "dilation": (1,), "groups": 1}
    yield Sample(real(2, 3, 5), real(4, 3, 2, seed=1), real(4), **same)
    yield Fails(RuntimeError, real(2, 3, 5), real(4, 2, 2, seed=1), None, **same)


# PyTorch's functions ---------------------------------------------------------------------------------------


def convolution_samples() -> Iterator[Sample]:
    yield Sample(
        real(1, 2, 4, 4), real(3, 2, 2, 2, seed=1), real(3), (1, 1), (0, 0), (1, 1), False, (0, 0), 1
    )
    yield Sample(real(1, 2, 3, 3), real(2, 1, 2, 2, seed=1), None, (2, 1), (1, 0), (1, 2), True, (1, 0), 2)
    yield Fails(
        RuntimeError, real(1, 3, 4, 4), real(3, 2, 2, 2), None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1
    )


@composite(convolution_samples)
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """The convolution behind all the others, with every setting given."""
    spatial = weight._form.ndim - 2
    op = named(transposed, spatial)
    stride = per_dimension(op, "stride", stride, spatial)
    padding = per_dimension(op, "padding", padding, spatial)
    dilation = per_dimension(op, "dilation", dilation, spatial)
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed:
        output_padding = per_dimension(op, "output_padding", output_padding, spatial)
        check_operands(op, input, weight, bias, groups, transposed)
        check_steps(op, stride, padding, dilation, output_padding)
        attrs["size"] = transposed_size(
            input._form.shape[-spatial:], weight._form.shape[2:], stride, padding, dilation, output_padding
        )
    door, spec = (convolve_input, convolve_input_spec) if transposed else (convolve, convolve_spec)
    if input._form.ndim != spatial + 1:
        return door(input, weight, bias, **attrs)
    spec(input, weight, bias, **attrs)  # complains about the shape the user gave, not the one with a batch
    return door(input.unsqueeze(0), weight, bias, **attrs).squeeze(0)


def transposed_size(size, kernel, stride, padding, dilation, output_padding) -> tuple[int, ...]:
    extents = zip(size, kernel, stride, padding, dilation, output_padding)
    return tuple((n - 1) * s - 2 * p + d * (k - 1) + extra + 1 for n, k, s, p, d, extra in extents)


def same_padding(
    op: str, input: Tensor, weight: Tensor, stride: tuple, dilation: Any
) -> tuple[Tensor, tuple]:
    """The padding that keeps the size; an odd rest is padded at the end, beforehand."""
    kernel = weight._form.shape[2:]
    if any(step != 1 for step in stride):
        rule = "padding='same' is not supported for strided convolutions"
        raise error(RuntimeError, op, rule, stride=stride, fix="use stride=1, or give the padding as numbers")
    totals = [d * (k - 1) for k, d in zip(kernel, per_dimension(op, "dilation", dilation, len(kernel)))]
    if any(total % 2 for total in totals):
        input = pad_constant(input, pads=tuple((0, total % 2) for total in totals), value=0.0)
    return input, tuple(total // 2 for total in totals)


def check_call(op: str, input: Any, weight: Any, bias: Any, spatial: int) -> None:
    check_tensor(op, input)
    check_tensor(op, weight, "weight")
    if bias is not None:
        check_tensor(op, bias, "bias")
    if weight._form.ndim != spatial + 2:
        rule = f"expected a weight of {spatial + 2} dimensions, (out_channels, in_channels / groups, *kernel)"
        raise error(RuntimeError, op, rule, input=input, weight=weight)


def samples_of(spatial: int) -> Callable[[], Iterator[Sample]]:
    """Samples of conv1d, conv2d or conv3d: the last dimensions are short so that checks stay quick."""

    def image(*lead: int, size: int = 4) -> np.ndarray:
        return real(*lead, *(size, 3, 3)[:spatial])

    def kernel(*lead: int) -> np.ndarray:
        return real(*lead, *(2, 3, 1)[:spatial], seed=1)

    def samples() -> Iterator[Sample]:
        yield Sample(image(2, 3), kernel(4, 3), real(4))
        yield Sample(image(2, 2), kernel(2, 1), real(2), 2, 1, 1, 2)
        yield Sample(image(2, 2), kernel(4, 1), stride=1, padding=(2,) * spatial, dilation=2, groups=2)
        yield Sample(image(3), kernel(2, 3), padding="same")
        yield Sample(image(1, 1), kernel(1, 1), padding="valid", stride=[1] * spatial)
        yield Sample(image(0, 3), kernel(4, 3))
        yield Fails(RuntimeError, image(2, 3), kernel(4, 2))
        yield Fails(RuntimeError, image(2, 2, 3, 3), kernel(4, 3))
        yield Fails(RuntimeError, image(2, 3, size=1), kernel(4, 3))
        yield Fails(RuntimeError, image(2, 3), kernel(4, 3), real(3))
        yield Fails(RuntimeError, image(2, 3), kernel(4, 3), stride=0)
        yield Fails(RuntimeError, image(2, 3), kernel(4, 3), padding=-1)
        yield Fails(RuntimeError, image(2, 3), kernel(4, 3), padding="same", stride=2)
        yield Fails(RuntimeError, image(2, 3), kernel(4, 3), padding="full")
        yield Fails(RuntimeError, image(2, 3), kernel(4, 3), stride=(1, 1, 1, 1))
        yield Fails(TypeError, image(2, 3), None)
        yield Fails(TypeError, image(2, 3), kernel(4, 3), stride=1.5)

    return samples


def transposed_samples_of(spatial: int) -> Callable[[], Iterator[Sample]]:
    def image(*lead: int) -> np.ndarray:
        return real(*lead, *(3, 2, 2)[:spatial])

    def kernel(*lead: int) -> np.ndarray:
        return real(*lead, *(2, 3, 1)[:spatial], seed=1)

    def samples() -> Iterator[Sample]:
        yield Sample(image(2, 3), kernel(3, 2), real(2))
        yield Sample(image(2, 2), kernel(2, 1), real(2), 2, 0, 1, 2)
        yield Sample(image(2, 2), kernel(2, 1), stride=1, output_padding=1, dilation=2)
        yield Sample(image(2), kernel(2, 3), padding=0, stride=3)
        yield Sample(image(0, 2), kernel(2, 3))
        yield Fails(RuntimeError, image(2, 3), kernel(2, 2))
        yield Fails(RuntimeError, image(2, 2), kernel(2, 1), output_padding=1)
        yield Fails(RuntimeError, image(2, 2), kernel(2, 1), padding=3)
        yield Fails(RuntimeError, image(2, 2), kernel(2, 1), stride=0)
        yield Fails(TypeError, image(2, 2), kernel(2, 1), padding="same")

    return samples


def convolution_of(spatial: int) -> Callable:
    """conv1d, conv2d or conv3d."""
    op = named(False, spatial)

    def convolve_images(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        check_call(op, input, weight, bias, spatial)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                rule = f"invalid padding string {padding!r}: it is 'same', 'valid' or a number per dimension"
                raise error(RuntimeError, op, rule)
            check_rank(op, input, weight, spatial)
            steps = per_dimension(op, "stride", stride, spatial)
            input, padding = (
                same_padding(op, input, weight, steps, dilation) if padding == "same" else (input, 0)
            )
        return convolution(input, weight, bias, stride, padding, dilation, False, 0, groups)

    convolve_images.__name__ = convolve_images.__qualname__ = op
    convolve_images.__doc__ = f"Slides kernels over inputs of the shape {PLANES[spatial]}."
    return composite(samples_of(spatial), spaces=("nn.functional", ""))(convolve_images)


def transposed_convolution_of(spatial: int) -> Callable:
    """conv_transpose1d, conv_transpose2d or conv_transpose3d."""
    op = named(True, spatial)

    def spread_images(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        check_call(op, input, weight, bias, spatial)
        return convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)

    spread_images.__name__ = spread_images.__qualname__ = op
    spread_images.__doc__ = f"The adjoint of conv{spatial}d in its input: every input entry spreads a kernel."
    return composite(transposed_samples_of(spatial), spaces=("nn.functional", ""))(spread_images)


conv1d, conv2d, conv3d = map(convolution_of, (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = map(transposed_convolution_of, (1, 2, 3))


def sequence_samples() -> Iterator[Sample]:
    yield Sample(real(4, 2, 3), real(2, 3, 2, seed=1), real(2), 1)
    yield Sample(real(4, 1, 2), real(3, 2, 2, seed=1), real(2))
    yield Fails(RuntimeError, real(4, 2, 2), real(2, 3, 2), real(2))


@composite(sequence_samples, spaces=("nn.functional", ""))
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d of sequences laid out as (time, batch, channels), with a weight (kernel, in, out)."""
    check_call("conv_tbc", input, weight, bias, 1)
    return conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)
