"""Normalisation over trailing dimensions, what all norms share, and the norms made of other ops.

The ops return their statistics (mean and biased variance) beside the result. Their gradient is one kernel
when it will not itself be differentiated, and else the formula in `gradients`. The kernels are in
backend/cpu/normalization.py. Read next: ops/channel_norms.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.dtype import NARROW
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec, sizes_of
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import F32, composite, face, fused, wide
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# The formula -----------------------------------------------------------------------------------------------


def statistics(x: Tensor, axes: tuple[int, ...], centered: bool = True) -> tuple[Tensor, Tensor]:
    """The mean, which is zero for norms that do not center, and the mean square distance from it."""
    if not centered:
        square = (x * x).mean(axes, keepdim=True)
        return x.new_zeros(()).expand(square._form.shape), square
    mean = x.mean(axes, keepdim=True)
    distance = x - mean
    return mean, (distance * distance).mean(axes, keepdim=True)


def normalized(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, eps: float, centered: bool = True
) -> Tensor:
    """(x − mean) / √(variance + eps) · weight + bias."""
    out = (x - mean if centered else x) * (variance + eps).rsqrt()
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


def gradients(
    g: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    axes: tuple[int, ...],
    eps: float,
    centered: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias, where x's statistics are over `axes` and weight broadcasts to x.

    With n = normalised x and h = g · weight:  dx = (h − mean(h) − n · mean(h · n)) / deviation.
    """
    scale = (variance + eps).rsqrt()
    normal = (x - mean if centered else x) * scale
    h = g if weight is None else g * weight
    dx = h - normal * (h * normal).mean(axes, keepdim=True)
    if centered:
        dx = dx - h.mean(axes, keepdim=True)
    return dx * scale, g * normal, g


def check_dtypes(op: str, x: Tensor, *parameters: Tensor | None) -> None:
    """Parameters have the input's dtype, or float32 beside a half precision input."""
    if x.dtype.category != dtypes.FLOAT:
        raise error(NotImplementedError, op, f"not implemented for {x.dtype}", input=x)
    for parameter in parameters:
        if parameter is None or parameter._form.dtype == x._form.dtype:
            continue
        if x._form.dtype not in NARROW or parameter.dtype is not dtypes.float32:
            rule = "mixed dtype (CPU): expect parameter to have scalar type of Float"
            raise error(RuntimeError, op, rule, input=x, parameter=parameter)


def statistics_dtype(x: Tensor) -> dtypes.dtype:
    return dtypes.float32 if x._form.dtype in NARROW else x.dtype


def widen(x: np.ndarray) -> np.ndarray:
    return x.astype(F32) if x.dtype in NARROW else x


def widened(*arrays: np.ndarray | None) -> list:
    return [None if array is None else widen(array) for array in arrays]


# Rows: layer norm and RMS norm -----------------------------------------------------------------------------


def rows_spec(x: Tensor, weight: Any, bias: Any, *, rank: int, eps: float, centered: bool) -> list[Spec]:
    lead = x._form.shape[: x._form.ndim - rank]
    statistics = Spec((*lead, *[1] * rank), statistics_dtype(x))
    return [Spec(x._form.shape, x.dtype), statistics, statistics]


def rows_gradient_spec(
    g: Tensor, x: Tensor, weight: Any, mean: Any, variance: Any, *, rank: int, **_: Any
) -> list:
    kind = statistics_dtype(x)
    parameter = Spec(x._form.shape[x._form.ndim - rank :], kind)
    return [Spec(x._form.shape, kind), parameter, parameter]


def trailing(x: Tensor, rank: int) -> tuple[int, ...]:
    return tuple(range(x._form.ndim - rank, x._form.ndim))


def rows_parts(x: Tensor, weight: Any, bias: Any, *, rank: int, eps: float, centered: bool) -> tuple:
    mean, variance = statistics(x, trailing(x, rank), centered)
    return normalized(x, weight, bias, mean, variance, eps, centered), mean, variance


def rows_gradient_parts(
    g: Tensor, x: Tensor, weight: Any, mean: Tensor, variance: Tensor,
    *, rank: int, eps: float, centered: bool,
) -> tuple:  # fmt: skip
    axes = trailing(x, rank)
    dx, dweight, dbias = gradients(g, x, weight, mean, variance, axes, eps, centered)
    shape = x._form.shape[axes[0] :]
    return dx, dweight.sum_to_size(shape), dbias.sum_to_size(shape)


def rows_gradient_samples() -> Iterator[Sample]:
    saved = (real(3, 4, seed=1), real(4), real(3, 1), real(3, 1, low=1))
    yield Sample(real(3, 4), *saved, rank=1, eps=0.1, centered=True)
    yield Sample(real(3, 4), *saved, rank=1, eps=0.1, centered=False)


rows_gradient = fused(
    "rows_gradient",
    rows_gradient_parts,
    spec=rows_gradient_spec,
    vjp=NO_GRAD,
    samples=rows_gradient_samples,
    outputs=3,
)


def rows_vjp(
    g: list, x: Tensor, weight: Any, bias: Any, out1: Tensor, out2: Tensor,
    *, rank: int, eps: float, centered: bool,
) -> tuple:  # fmt: skip
    attrs: dict[str, Any] = {"rank": rank, "eps": eps, "centered": centered}
    if mode.grad:  # it will itself be differentiated, also through the statistics
        x, factors = wide(x), None if weight is None else wide(weight)
        saved = statistics(x, trailing(x, rank), centered)
        dx, dweight, dbias = rows_gradient_parts(wide(g[0]), x, factors, *saved, **attrs)
    else:
        dx, dweight, dbias = rows_gradient(g[0], x, weight, out1, out2, **attrs)
    return dx, None if weight is None else dweight, None if bias is None else dbias


def layer_norm_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), (4,), real(4, seed=1), real(4, seed=2))
    yield Sample(real(2, 3, 4), [3, 4], real(3, 4, seed=1))
    yield Sample(real(2, 3, 4), (4,))
    yield Sample(real(5), (5,), None, real(5, seed=1), 0.1)
    yield Sample(real(0, 4), (4,))
    yield Fails(RuntimeError, real(3, 4), (3,))
    yield Fails(RuntimeError, real(3, 4), ())
    yield Fails(RuntimeError, real(3, 4), (4,), real(3))
    yield Fails(RuntimeError, real(3, 4), (4,), real(4), real(3))
    yield Fails(NotImplementedError, whole(3, 4), (4,))
    yield Fails(TypeError, real(3, 4), 4)


def rms_norm_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), (4,), real(4, seed=1))
    yield Sample(real(2, 3, 4), [3, 4], real(3, 4, seed=1), 0.1)
    yield Sample(real(2, 3, 4), (4,))
    yield Fails(RuntimeError, real(3, 4), (3,))
    yield Fails(RuntimeError, real(3, 4), (4,), real(3))
    yield Fails(NotImplementedError, whole(3, 4), (4,))


layer_norm_op = fused(
    "native_layer_norm",
    rows_parts,
    spec=rows_spec,
    vjp=rows_vjp,
    samples=layer_norm_samples,
    outputs=3,
    without_grad=(1, 2),
)
rms_norm_op = fused(
    "rms_norm",
    rows_parts,
    spec=rows_spec,
    vjp=rows_vjp,
    samples=rms_norm_samples,
    outputs=3,
    without_grad=(1, 2),
)


def check_rows(op: str, input: Tensor, normalized_shape: Any, weight: Any, bias: Any = None) -> int:
    """How many trailing dimensions are normalised together."""
    check_tensor(op, input)
    if not isinstance(normalized_shape, (tuple, list)):
        kind = type(normalized_shape).__name__
        raise error(TypeError, op, f"argument 'normalized_shape' must be tuple of ints, not {kind}")
    shape = sizes_of((normalized_shape,))
    if not shape:
        raise error(RuntimeError, op, "normalized_shape must have at least one dimension")
    if input._form.shape[-len(shape) :] != shape:
        rule = f"given normalized_shape={list(shape)}, expected input with shape [*, {str(list(shape))[1:]}"
        raise error(RuntimeError, op, rule, input=input)
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter._form.shape != shape:
            rule = f"expected {name} to be of same shape as normalized_shape {list(shape)}"
            raise error(RuntimeError, op, rule, **{name: parameter})
    check_dtypes(op, input, weight, bias)
    return len(shape)


@face(layer_norm_op, spaces=("nn.functional", ""))
def layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:
    """(x − mean) / √(variance + eps) · weight + bias, over the trailing dimensions `normalized_shape`."""
    rank = check_rows("layer_norm", input, normalized_shape, weight, bias)
    return layer_norm_op(input, weight, bias, rank=rank, eps=eps, centered=True)[0]


@face(rms_norm_op, spaces=("nn.functional", ""))
def rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / √(mean(x²) + eps) · weight, over the trailing dimensions `normalized_shape`."""
    rank = check_rows("rms_norm", input, normalized_shape, weight)
    if eps is None:
        eps = dtypes.finfo(statistics_dtype(input)).eps
    return rms_norm_op(input, weight, None, rank=rank, eps=eps, centered=False)[0]


def native_layer_norm_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), (4,), real(4, seed=1), real(4, seed=2), 0.1)
    yield Sample(real(2, 3, 4), [3, 4], None, None, 0.1)
    yield Fails(RuntimeError, real(3, 4), (3,), None, None, 0.1)


@composite(native_layer_norm_samples, vjp=NO_GRAD)
def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm with its statistics: the result, the means and the inverse deviations."""
    rank = check_rows("native_layer_norm", input, normalized_shape, weight, bias)
    out, mean, variance = layer_norm_op(input, weight, bias, rank=rank, eps=eps, centered=True)
    return out, *public_statistics(input, weight, mean, variance, eps)


def public_statistics(
    input: Tensor, weight: Tensor | None, mean: Tensor, variance: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation in the parameters' dtype."""
    kind = input.dtype if weight is None else weight.dtype
    return mean.to(kind), (variance + eps).rsqrt().to(kind)


# Made of other ops -----------------------------------------------------------------------------------------


def local_response_norm_samples() -> Iterator[Sample]:
    yield Sample(real(2, 5, 3), 3)
    yield Sample(real(2, 4, 2, 2), 2, alpha=0.5, beta=0.5, k=2.0)
    yield Sample(real(0, 4, 3), 2)
    yield Fails(ValueError, real(2, 3), 2)


@composite(local_response_norm_samples, spaces=("nn.functional",))
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha · mean of x² over `size` neighbouring channels) ** beta."""
    check_tensor("local_response_norm", input)
    rank = input._form.ndim
    if rank < 3:
        rule = f"Expected 3D or higher dimensionality input (got {rank} dimensions)"
        raise error(ValueError, "local_response_norm", rule)
    if not input._form.size:
        return input
    from cleargrad.ops.padding import pad

    channels = input._form.shape[1]
    squares = pad(input * input, (*[0, 0] * (rank - 2), size // 2, (size - 1) // 2))
    total = squares.narrow(1, 0, channels)
    for offset in range(1, size):
        total = total + squares.narrow(1, offset, channels)
    mean = total / size if input.dtype.category == dtypes.FLOAT else total // size
    return input / (mean * alpha + k).pow(beta)


def normalize_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3, 4), 1.0, 0)
    yield Sample(real(2, 3, 4), p=3.0, dim=-1, eps=0.1)
    yield Sample(real(2, 3, 4), dim=(1, 2))
    yield Fails(IndexError, real(3))
    yield Fails(RuntimeError, whole(3, 4))


@composite(normalize_samples, spaces=("nn.functional",), out=True)
def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """x / max(‖x‖ₚ, eps) over a dimension."""
    check_tensor("normalize", input)
    if input.dtype.category < dtypes.FLOAT:
        raise error(RuntimeError, "normalize", "expected a floating point or complex tensor", input=input)
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps)
