"""Matrix products: mm, bmm, matmul, and the forms that add to a tensor (addmm and its kin).

Every product is one call on the last two dimensions, in the order that devices/cpu/native.py speaks of. float16 and
bfloat16 multiply in float32 and round once. Read next: ops/linear.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.device import Elsewhere
from cleargrad.core.dtype import NARROW, OF_NUMPY
from cleargrad.core.mode import NO_GRAD, SPECIAL, gate, mode, spared
from cleargrad.core.shape import Spec, broadcast, count
from cleargrad.core.tensor import Tensor, held, wrap
from cleargrad.devices.cpu.arrays.sums import add_up
from cleargrad.devices.cpu.native import product as product_of_arrays
from cleargrad.errors import error
from cleargrad.ops.autocast import asking
from cleargrad.ops.declare import composite, face, fused, opaque
from cleargrad.ops.dimensions import swap_dims
from cleargrad.ops.doors import F32, F64, binary_door, in_front
from cleargrad.ops.pointwise import check_alpha, conj
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor, link_view

_swap = swap_dims.op
_swap_plan, _last_two = _swap.plan((True,)), {"dim0": -2, "dim1": -1}


def transposed(x: Tensor) -> Tensor:
    """The last two dimensions swapped: `transpose(-2, -1)` without its checks."""
    how = gate.how or mode.how
    if how == SPECIAL and (how := spared()) == SPECIAL:
        return swap_dims(x, dim0=-2, dim1=-1)
    try:
        data = x._data
    except Elsewhere:
        return swap_dims(x, dim0=-2, dim1=-1)
    return link_view(data.swapaxes(-2, -1), x, how, _swap.node, _swap_plan, _last_two)


def adjoint(x: Tensor) -> Tensor:
    """The (conjugate) transpose of the last two dimensions."""
    return conj(transposed(x))


# Two operands ----------------------------------------------------------------------------------------------


def matmul_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(4, 2, seed=1))
    yield Sample(real(4), real(4, seed=1))
    yield Sample(real(3, 4), real(4, seed=1))
    yield Sample(real(4), real(4, 2, seed=1))
    yield Sample(real(2, 3, 4), real(2, 4, 5, seed=1))
    yield Sample(real(2, 1, 3, 4), real(5, 4, 2, seed=1))
    yield Sample(real(2, 3, 4), real(4, 2, seed=1))
    yield Sample(real(2, 3, 4), real(4, seed=1))
    yield Sample(real(3, 0), real(0, 2, seed=1))
    yield Sample(whole(3, 4), whole(4, 2))
    yield Fails(RuntimeError, real(3, 4), real(3, 4))
    yield Fails(RuntimeError, real(), real(3))
    yield Fails(RuntimeError, real(3, 4), whole(4, 2))
    yield Fails(TypeError, real(3, 4), None)


def check_dtypes(op: str, x: Tensor, *others: Tensor) -> None:
    """Products do not promote: all operands have one dtype, and it is not bool."""
    if any(y._form.dtype != x._form.dtype for y in others):
        facts: dict[str, Any] = {f"operand {k}": y for k, y in enumerate((x, *others))}
        raise error(RuntimeError, op, "expected all operands to have the same dtype", **facts)
    if x._form.dtype.kind == "b" and all(y._form.size for y in (x, *others)):
        raise error(NotImplementedError, op, "not implemented for torch.bool", input=x)


def check_ranks(op: str, ranks: tuple[int, ...], *operands: Tensor) -> None:
    for x, rank in zip(operands, ranks, strict=True):
        check_tensor(op, x)
        if x._form.ndim != rank:
            rule = f"expected operands with {' and '.join(map(str, ranks))} dimensions"
            facts: dict[str, Any] = {f"operand {k}": y for k, y in enumerate(operands)}
            raise error(RuntimeError, op, rule, **facts)


def product_shape(op: str, x: Tensor, y: Tensor) -> tuple[int, ...]:
    """The shape of `x @ y`, by the rules of matmul."""
    a, b = x._form.shape, y._form.shape
    if not a or not b:
        raise error(RuntimeError, op, "both arguments need to be at least 1D", input=x, other=y)
    if a[-1] != b[max(len(b) - 2, 0)]:
        rule = "the last dimension of `input` must equal the second-to-last of `other`"
        raise error(RuntimeError, op, rule, input=x, other=y)
    return (*broadcast(op, a[:-2], b[:-2]), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def multiply(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product of matrices or stacks of them; many matrices by one, or a vector, are a product of two."""
    if y.ndim == 1:
        return multiply_by_vector(x, y)
    if x.ndim != 2 == y.ndim:
        rows = x.reshape(count(x.shape[:-1]), x.shape[-1])  # perhaps a copy: little beside the product
        return product_of_arrays(rows, y).reshape(*x.shape[:-1], y.shape[-1])
    return product_of_arrays(x, y)


def multiply_by_vector(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return product_of_arrays(x, y[:, None])[:, 0]


def multiply_vectors(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.shape != y.shape:
        raise ValueError("vectors of different lengths")  # the spec says it in our words
    return add_up(x * y, (0,)) if x.dtype.kind == "f" else np.asarray(x.dot(y))


def product(
    name: str, kernel: Callable, ranks: tuple[int, int] | None, vjp: tuple, parts: Callable | None = None
) -> Callable:
    """A product of two operands, behind the flat door: small ones are frequent."""

    def spec(x: Tensor, y: Tensor) -> Spec:
        if ranks is not None:
            check_ranks(name, ranks, x, y)
        check_dtypes(name, x, y)
        return Spec(product_shape(name, x, y), OF_NUMPY[x._form.dtype])

    def run(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        kind = x.dtype
        if kind != y.dtype or (kind.kind == "b" and x.size and y.size):
            raise TypeError("operands differ in dtype")  # the spec says it in our words
        if kind in NARROW:
            return kernel(x.astype(F32), y.astype(F32)).astype(kind)
        return kernel(x, y)

    rules: dict[str, Any] = {"spec": spec, "run": run, "vjp": vjp, "samples": SAMPLES[name]}
    rules["spec_first"] = False
    door = fused(name, parts, **rules) if parts else opaque(name, **rules)
    return binary_door(door.op, kernel, numbers=False)


def mm_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(4, 2, seed=1))
    yield Sample(real(0, 4), real(4, 2, seed=1))
    yield Fails(RuntimeError, real(3, 4), real(3, 4))
    yield Fails(RuntimeError, real(3, 4), real(4))


def bmm_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3, 4), real(2, 4, 2, seed=1))
    yield Sample(real(2, 3, 0), real(2, 0, 2, seed=1))
    yield Fails(RuntimeError, real(2, 3, 4), real(1, 4, 2))
    yield Fails(RuntimeError, real(3, 4), real(4, 2))


def mv_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(4, seed=1))
    yield Fails(RuntimeError, real(3, 4), real(3))
    yield Fails(RuntimeError, real(3, 4), real(4, 1))


def dot_samples() -> Iterator[Sample]:
    yield Sample(real(4), real(4, seed=1))
    yield Sample(real(0), real(0))
    yield Fails(RuntimeError, real(3), real(4))
    yield Fails(RuntimeError, real(3, 3), real(3))


def unwatched(g: Tensor, x: Tensor) -> bool:
    """Whether a gradient is a product of arrays and nothing else: no graph, no casts, one kind of real floats."""
    kind = g._form.dtype
    plain = mode.how == NO_GRAD and kind is x._form.dtype and (kind is F32 or kind is F64)
    return plain and held(g) is None


def rows_of(x: Tensor) -> Tensor:
    """All dimensions but the last as one."""
    shape = x._form.shape
    return x if len(shape) == 2 else x.reshape(count(shape[:-1]), shape[-1])


def left_gradient(g: Tensor, y: Tensor) -> Tensor:
    return wrap(multiply(g._data, y._data.swapaxes(-2, -1))) if unwatched(g, y) else g @ adjoint(y)


def right_gradient(g: Tensor, x: Tensor, *, y_shape: tuple[int, ...]) -> Tensor:
    if len(y_shape) == 2 < x._form.ndim and x._form.shape[:-1] == g._form.shape[:-1]:
        g, x = rows_of(g), rows_of(x)  # one product of all rows: nothing is left to be summed up
    return wrap(multiply(x._data.swapaxes(-2, -1), g._data)) if unwatched(g, x) else adjoint(x) @ g


SAMPLES = {"mm": mm_samples, "bmm": bmm_samples, "mv": mv_samples, "dot": dot_samples}
MATRICES = (left_gradient, right_gradient)

mm_op = product("mm", product_of_arrays, (2, 2), MATRICES)
bmm_op = product("bmm", multiply, None, MATRICES)
mv_op = product(
    "mv",
    multiply_by_vector,
    (2, 1),
    (lambda g, y: outer(g, conj(y)), lambda g, x: adjoint(x) @ g),
    lambda x, y: mm_op(x, y.unsqueeze(-1)).squeeze(-1),
)
dot_op = product(
    "dot",
    multiply_vectors,
    (1, 1),
    (lambda g, y: g * conj(y), lambda g, x: g * conj(x)),
    lambda x, y: (x * y).sum(),
)


def matmul_of_any_rank(input: Tensor, other: Tensor) -> Tensor:
    check_tensor("matmul", input)
    check_tensor("matmul", other, "other")
    a, b = input._form.ndim, other._form.ndim
    if a == 2 and b == 2:
        return mm_op(input, other)
    if a >= 2 and b >= 2:
        return bmm_op(input, other)
    check_dtypes("matmul", input, other)
    product_shape("matmul", input, other)
    if b == 1:
        if a <= 2:
            return dot_op(input, other) if a == 1 else mv_op(input, other)
        return bmm_op(input, other.unsqueeze(-1)).squeeze(-1)
    return matmul_of_any_rank(input.unsqueeze(0), other).squeeze(-2)


# `x @ y` goes straight to the product of two matrices when it is one.
matmul_door = in_front(
    asking("matmul", matmul_of_any_rank),
    mm_op.op,
    product_of_arrays,
    ("input", "other"),
    plain="input._form.ndim == 2 == other._form.ndim",
)
matmul_door.__name__ = "matmul"
matmul_door.__doc__ = "The matrix product of the last two dimensions; earlier ones are batches and broadcast."
matmul = composite(matmul_samples, method=True, out=True)(matmul_door)


@face(mm_op, method=True, out=True)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    check_ranks("mm", (2, 2), input, mat2)
    return mm_op(input, mat2)


@face(bmm_op, method=True, out=True)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of two equally long stacks of matrices."""
    check_batches("bmm", input, mat2)
    return bmm_op(input, mat2)


def check_batches(op: str, x: Tensor, y: Tensor) -> None:
    check_ranks(op, (3, 3), x, y)
    if x._form.shape[0] != y._form.shape[0]:
        raise error(RuntimeError, op, "expected stacks of the same number of matrices", input=x, other=y)


@face(mv_op, method=True, out=True)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector."""
    check_ranks("mv", (2, 1), input, vec)
    return mv_op(input, vec)


@face(dot_op, method=True, out=True)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The sum of the products of two vectors' elements."""
    check_ranks("dot", (1, 1), input, tensor)
    return dot_op(input, tensor)


@composite(dot_samples, method=True, out=True)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The dot product with the first vector conjugated."""
    check_ranks("vdot", (1, 1), input, other)
    return dot_op(conj(input), other)


def outer_samples() -> Iterator[Sample]:
    yield Sample(real(3), real(4, seed=1))
    yield Sample(real(0), real(4, seed=1))
    yield Fails(RuntimeError, real(3, 1), real(4))


@composite(outer_samples, method=True, out=True, aliases=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The matrix of all products of two vectors' elements."""
    check_ranks("outer", (1, 1), input, vec2)
    return input.unsqueeze(-1) * vec2


# A product added to a tensor: beta · input + alpha · product -----------------------------------------------


def scaled(x: Any, factor: Any) -> Any:
    return x if factor == 1 else x * factor


def add_product(name: str, shape: Callable, samples: Callable, node: str | None = None) -> Callable:
    """The op `beta · input + alpha · (x @ y)`; `shape` gives the product's shape, or its error."""

    def spec(input: Tensor, x: Tensor, y: Tensor, *, beta: Any, alpha: Any) -> Spec:
        result = shape(name, x, y)
        check_dtypes(name, x, y, input)
        if broadcast(name, input._form.shape, result) != result:
            raise error(RuntimeError, name, f"`input` cannot be expanded to {result}", input=input)
        return Spec(result, OF_NUMPY[x._form.dtype])

    def run(input: np.ndarray, x: np.ndarray, y: np.ndarray, *, beta: Any, alpha: Any) -> np.ndarray:
        kind = input.dtype
        if kind in NARROW:
            input, x, y = (array.astype(F32) for array in (input, x, y))
        value = multiply(x, y)
        if name == "addbmm":
            value = add_up(value, (0,))
        if alpha != 1:
            value *= value.dtype.type(alpha)  # a fraction of integers is cut off, as in PyTorch
        if beta == 1:
            value += input
        elif beta != 0:  # zero times NaN would be NaN
            value += input * value.dtype.type(beta)
        return value if value.dtype == kind else value.astype(kind)

    def parts(input: Tensor, x: Tensor, y: Tensor, *, beta: Any, alpha: Any) -> Tensor:
        value = x @ y
        if name == "addbmm":
            value = value.sum(0)
        if x._form.dtype.kind in "iu":
            beta, alpha = int(beta), int(alpha)
        value = scaled(value, alpha)
        return value if beta == 0 else scaled(input, beta) + value

    vjp = (
        lambda g, *, beta: scaled(g, beta),
        lambda g, y, *, alpha, x_shape: scaled(adjoint_left(g, y, x_shape), alpha),
        lambda g, x, *, alpha: scaled(adjoint(x) @ g, alpha),
    )
    # Products add up in float32 by themselves.
    return fused(name, parts, spec=spec, run=run, vjp=vjp, samples=samples, node=node)


def adjoint_left(g: Tensor, y: Tensor, x_shape: tuple[int, ...]) -> Tensor:
    """The gradient of the left factor; beside a vector it is an outer product."""
    return outer(g, conj(y)) if y._form.ndim == 1 else g @ adjoint(y)


def added_samples(input: tuple, x: tuple, y: tuple) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        operands = real(*x, seed=1), real(*y, seed=2)
        yield Sample(real(*input), *operands)
        yield Sample(real(*input[1:]), *operands, beta=0.5, alpha=-2.0)
        yield Sample(real(*input), *operands, beta=0, alpha=0.5)
        yield Sample(whole(*input), whole(*x), whole(*y), beta=2, alpha=3)
        yield Fails(RuntimeError, real(*input, 7), *operands)
        yield Fails(RuntimeError, real(*input), operands[1], operands[0])
        yield Fails(RuntimeError, whole(*input), *operands)

    return samples


def ranked(*ranks: int) -> Callable:
    def shape(op: str, x: Tensor, y: Tensor) -> tuple[int, ...]:
        check_ranks(op, ranks, x, y)
        return product_shape(op, x, y)

    return shape


def stacked(op: str, x: Tensor, y: Tensor) -> tuple[int, ...]:
    check_batches(op, x, y)
    return product_shape(op, x, y)


MM = added_samples((3, 2), (3, 4), (4, 2))
MV = added_samples((3,), (3, 4), (4,))
BMM = added_samples((2, 3, 4), (2, 3, 5), (2, 5, 4))
SUMMED = added_samples((3, 4), (2, 3, 5), (2, 5, 4))
addmm_op = add_product("addmm", ranked(2, 2), MM)
addmv_op = add_product("addmv", ranked(2, 1), MV)
baddbmm_op = add_product("baddbmm", stacked, BMM)
addbmm_op = add_product("addbmm", lambda op, x, y: stacked(op, x, y)[1:], SUMMED)


@face(addmm_op, method=True, inplace=True, out=True)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · (mat1 @ mat2); with beta 0 the input's values do not matter."""
    return addmm_op(input, mat1, mat2, beta=beta, alpha=alpha)


@face(addmv_op, method=True, inplace=True, out=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · (mat @ vec)."""
    return addmv_op(input, mat, vec, beta=beta, alpha=alpha)


@face(baddbmm_op, method=True, inplace=True, out=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · (batch1 @ batch2), matrix by matrix."""
    return baddbmm_op(input, batch1, batch2, beta=beta, alpha=alpha)


@face(addbmm_op, method=True, inplace=True, out=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · the sum of the products batch1[i] @ batch2[i]."""
    return addbmm_op(input, batch1, batch2, beta=beta, alpha=alpha)


def addr_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, seed=1), real(4, seed=2))
    yield Sample(real(4), real(3, seed=1), real(4, seed=2), beta=0.5, alpha=-2.0)
    yield Sample(real(3, 4), real(3, seed=1), real(4, seed=2), beta=0, alpha=0.5)
    yield Fails(RuntimeError, real(3, 4), real(4), real(3))
    yield Fails(RuntimeError, whole(3, 4), whole(3), whole(4), beta=0.5)


@composite(addr_samples, method=True, inplace=True, out=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta · input + alpha · the outer product of two vectors."""
    check_alpha("addr", beta, input, vec1, vec2)
    check_alpha("addr", alpha, input, vec1, vec2)
    result = scaled(outer(vec1, vec2), alpha)
    if broadcast("addr", input._form.shape, result._form.shape) != result._form.shape:
        raise error(RuntimeError, "addr", f"`input` cannot be expanded to {tuple(result.shape)}", input=input)
    return result if beta == 0 else scaled(input, beta) + result
