"""Complex numbers: their parts, conjugates, angles, and the views that read them as pairs of reals.

Gradients follow PyTorch's convention: the vjp of a holomorphic f is g · conj(f′). Conjugates are computed at
once, so there is nothing for resolve_conj() to do. Read next: ops/views.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops.comparison import choose
from cleargrad.ops.creation import zeros_like
from cleargrad.ops.declare import REAL, composite, elementwise, face, opaque, view
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor


def whole_plane() -> Iterator[Sample]:
    yield Sample(real(3, 4) + 1j * real(3, 4, seed=1))
    yield Sample(np.array(0.5 - 2j))


def plane_and_line() -> Iterator[Sample]:
    yield from whole_plane()
    yield Sample(real(3, 4))


def single(*shape: int, seed: int = 0) -> np.ndarray:
    """float32, which samples keep: there is no complex type for the narrower ones."""
    return real(*shape, seed=seed).astype(np.float32)


def is_complex(x: Tensor) -> bool:
    return x._form.dtype.kind == "c"


# Parts -----------------------------------------------------------------------------------------------------

real_part = view("real", lambda x: x.real, vjp=lambda g: g, samples=whole_plane)
imaginary_part = view("imag", lambda x: x.imag, vjp=lambda g: g * 1j, samples=whole_plane)


@composite(plane_and_line, reference=lambda torch: torch.real)
def real_(input: Tensor) -> Tensor:
    """The real part, in the same memory."""
    check_tensor("real", input)
    return real_part(input) if is_complex(input) else input


@face(imaginary_part)
def imag(input: Tensor) -> Tensor:
    """The imaginary part, in the same memory."""
    check_tensor("imag", input)
    if not is_complex(input):
        raise error(
            RuntimeError, "imag", "imag is not implemented for tensors with non-complex dtypes", input=input
        )
    return imaginary_part(input)


def parts_spec(op: str) -> Callable:
    def spec(x: Tensor, y: Tensor) -> Spec:
        check_tensor(op, x)
        check_tensor(op, y, "other")
        if x.dtype not in (dtypes.float32, dtypes.float64) or y.dtype is not x.dtype:
            rule = "both parts must be float32 or float64, and alike"
            raise error(RuntimeError, op, rule, real=x, imag=y)
        return Spec(broadcast(op, x._form.shape, y._form.shape), x.dtype.to_complex())

    return spec


def run_complex(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, y.shape)
    result = np.empty(shape, np.complex128 if x.dtype == np.float64 else np.complex64)
    result.real, result.imag = x, y
    return result


join_parts = opaque(
    "complex",
    spec=parts_spec("complex"),
    run=run_complex,
    vjp=(lambda g: g.real, lambda g: g.imag),
    samples=lambda: iter(
        [Sample(single(3, 4), single(4, seed=1)), Fails(RuntimeError, np.array([1]), np.array([1]))],
    ),
)


@face(join_parts, out=True)
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + i · imag."""
    return join_parts(real, imag)


@composite(
    lambda: iter([Sample(real(3, 4, low=0.2), real(4, seed=1)), Fails(RuntimeError, real(3), real(4))]),
    out=True,
)
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs · (cos(angle) + i sin(angle))."""
    parts_spec("polar")(abs, angle)
    return join_parts(abs * angle.cos(), abs * angle.sin())


# Conjugate and angle ---------------------------------------------------------------------------------------

conjugate = elementwise(
    "conj", lambda x: expr.conj(x), vjp=lambda g: g.conj(), samples=whole_plane, public=False
)


@composite(plane_and_line, method=True, reference=lambda torch: torch.conj_physical)
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor is its own."""
    check_tensor("conj", input)
    return conjugate(input) if is_complex(input) else input


@composite(plane_and_line, method=True, inplace=True, out=True)
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate, computed."""
    return conj(input)


def unchanged(name: str, what: str) -> Callable:
    def function(input: Tensor) -> Tensor:
        check_tensor(name, input)
        return input

    function.__name__ = name
    function.__doc__ = f"The tensor itself: {what} is never left for later."
    return composite(plane_and_line, method=True)(function)


resolve_conj = unchanged("resolve_conj", "conjugation")
resolve_neg = unchanged("resolve_neg", "negation")

plane_angle = elementwise(
    "angle",
    lambda x: expr.angle(x),
    vjp=lambda g, x: choose(x == 0, 0, g * x / x.abs() ** 2 * 1j),
    samples=whole_plane,
    accepts=(dtypes.COMPLEX,),
    result="real",
    public=False,
)
line_angle = elementwise(
    "angle_of_real",
    lambda x: expr.where(expr.eq(x, x), expr.where(x < 0, math.pi, 0), x),
    vjp=lambda g: zeros_like(g),
    samples=lambda: iter([Sample(real(3, 4))]),
    accepts=REAL,
    result="float",
    node="AngleBackward0",
    public=False,
)


@composite(plane_and_line, method=True, out=True)
def angle(input: Tensor) -> Tensor:
    """The argument of complex numbers; 0 or π for real ones."""
    check_tensor("angle", input)
    return plane_angle(input) if is_complex(input) else line_angle(input)


# Pairs of reals --------------------------------------------------------------------------------------------


def run_view_as_real(x: np.ndarray) -> np.ndarray:
    parts = x.real
    return as_strided(parts, (*x.shape, 2), (*x.strides, parts.itemsize))


def run_view_as_complex(x: np.ndarray) -> np.ndarray:
    kind = np.complex128 if x.dtype == np.float64 else np.complex64
    return x.view(kind)[..., 0]


pairs = view("view_as_real", run_view_as_real, vjp=lambda g: as_plane(g), samples=whole_plane)
plane = view(
    "view_as_complex",
    run_view_as_complex,
    vjp=lambda g: pairs(g),
    samples=lambda: iter([Sample(single(3, 2)), Sample(single(2)), Fails(RuntimeError, real(3))]),
)


def as_plane(x: Tensor) -> Tensor:
    """Pairs as complex numbers, from a copy where the pairs are not together in memory."""
    return plane(x.contiguous())


@face(pairs, method=True)
def view_as_real(input: Tensor) -> Tensor:
    """Complex numbers as pairs of reals in a new last dimension, in the same memory."""
    check_tensor("view_as_real", input)
    if not is_complex(input):
        raise error(RuntimeError, "view_as_real", "only complex tensors have a view as real", input=input)
    return pairs(input)


@face(plane, method=True)
def view_as_complex(input: Tensor) -> Tensor:
    """Pairs of reals in the last dimension as complex numbers, in the same memory."""
    check_tensor("view_as_complex", input)
    data = input._form
    if data.dtype not in (dtypes.float32.numpy, dtypes.float64.numpy):
        raise error(
            RuntimeError, "view_as_complex", "only float32 and float64 have a complex view", input=input
        )
    if data.ndim == 0 or data.shape[-1] != 2 or data.strides[-1] != data.itemsize:
        rule = "the last dimension must have size 2 and stride 1"
        raise error(
            RuntimeError, "view_as_complex", rule, input=input, fix="stack the parts, or use complex()"
        )
    return plane(input)
