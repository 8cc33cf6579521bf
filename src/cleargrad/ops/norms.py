"""Norms of vectors and matrices, and the numbers built on them: cond, matrix_rank, renorm.

torch.norm is in ops/reductions.py. Read next: ops/distances.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np

from cleargrad.core.dtype import FLOAT, OF_NUMPY, can_cast
from cleargrad.core.dtype import dtype as Dtype
from cleargrad.core.shape import Spec, reduced, wrap_dim, wrap_dims
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.apply import NUMBERS
from cleargrad.ops.declare import composite, fused
from cleargrad.ops.decompositions import eigvalsh, svdvals
from cleargrad.ops.joining import stack
from cleargrad.ops.linear_algebra import check_matrix, definite, inv, invertible
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.reductions import restore, total_by_dim
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# Vectors ---------------------------------------------------------------------------------------------------


def vector_norm_spec(x: Tensor, *, ord: float, dim: tuple[int, ...], keepdim: bool) -> Spec:
    op, shape = "linalg.vector_norm", x._form.shape
    kind = OF_NUMPY[x._form.dtype]
    if kind.category < FLOAT:
        raise error(RuntimeError, op, "expected a floating point or complex tensor as input", x=x)
    if (ord < 0 or ord == inf) and any(shape[axis] == 0 for axis in dim):
        raise error(RuntimeError, op, f"the norm of order {ord} of no elements is undefined", x=x)
    return Spec(reduced(shape, dim, keepdim), kind.to_real())


def vector_norm_parts(x: Tensor, *, ord: float, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    if ord == 2:
        squares = (x * x.conj()).real if x.is_complex() else x * x
        return total_by_dim(squares, dim=dim, keepdim=keepdim).sqrt()
    size = x.abs()
    if ord in (inf, -inf):
        return size.amax(dim, keepdim) if ord > 0 else size.amin(dim, keepdim)
    if ord == 0:
        return total_by_dim(size != 0, dim=dim, keepdim=keepdim)
    if ord == 1:
        return total_by_dim(size, dim=dim, keepdim=keepdim)
    return total_by_dim(size.pow(ord), dim=dim, keepdim=keepdim).pow(1 / ord)


def vector_norm_vjp(
    g: Tensor, x: Tensor, out: Tensor, *, ord: float, dim: tuple[int, ...], keepdim: bool
) -> Tensor:
    """g · x |x|^(p−2) / ‖x‖^(p−1), and zero, which is a subgradient, where the norm is zero."""
    g, norm = restore(g, dim, keepdim), restore(out, dim, keepdim)
    if ord == 0:
        return x * 0
    if ord == 1:
        return g * x.sgn()
    if ord == 2:
        return x * (g / norm).masked_fill(norm == 0, 0)
    if ord in (inf, -inf):  # shared evenly by all elements that attain it
        attained = (x.abs() == norm).to(norm.dtype)
        return x.sgn() * attained * (g / attained.sum(dim, keepdim=True))
    if ord < 2:
        slope = x.sgn() * x.abs().pow(ord - 1)
        slope = slope.masked_fill(x == 0, 0) if ord < 1 else slope
    else:
        slope = x * x.abs().pow(ord - 2)
    return slope * (g / norm.pow(ord - 1)).masked_fill(norm == 0, 0)


vector_norm_op = fused(
    "linalg_vector_norm",
    vector_norm_parts,
    spec=vector_norm_spec,
    vjp=vector_norm_vjp,
    samples=lambda: iter(
        [Sample(real(2, 3), ord=p, dim=(1,), keepdim=False) for p in (2, 1, 0.5, 1.5, 3, inf)]
    ),
)


def vector_norm_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3))
    for ord in (2, 1, 0, 0.5, 1.5, 3, -1, inf, -inf):
        yield Sample(real(2, 3, 2), ord, 1)
    yield Sample(real(2, 3), 2, (0, 1), True)
    yield Sample(real(), 3)
    yield Sample(real(0, 3), 1, 0)
    yield Fails(RuntimeError, whole(3))
    yield Fails(RuntimeError, real(0, 3), inf, 0)
    yield Fails(IndexError, real(2, 3), 2, 2)


@composite(vector_norm_samples, spaces=("linalg",), out=True)
def vector_norm(
    input: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Tensor:
    """(Σ |x|ᵒʳᵈ)^(1/ord) over dimensions; 0 counts what is not zero, ±inf are the extremes."""
    check_tensor("linalg.vector_norm", input)
    if not isinstance(ord, NUMBERS):
        raise error(TypeError, "linalg.vector_norm", f"ord must be a number, not {ord!r}")
    input = as_wider(input, dtype, "linalg.vector_norm")
    dims = wrap_dims("linalg.vector_norm", None if dim == () else dim, input._form.ndim)
    return vector_norm_op(input, ord=ord, dim=dims, keepdim=keepdim)


def total_norm_parts(*tensors: Tensor, ord: float) -> Tensor:
    return vector_norm(stack([vector_norm(each, ord) for each in tensors]), ord)


# The norm of all gradients is one call, for nothing else is called so often on so many tensors.
total_norm = fused(
    "total_norm",
    total_norm_parts,
    spec=lambda *tensors, ord: Spec((), tensors[0].dtype.to_real()),
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(real(2, 3), real(4), ord=p) for p in (2.0, 1.0, inf)]),
)


def as_wider(x: Tensor, dtype: Dtype | None, op: str) -> Tensor:
    """The tensor in the dtype to compute in, which may not be a narrower one."""
    if dtype is None or dtype is x.dtype:
        return x
    if dtype.category < FLOAT or not can_cast(x.dtype, dtype) or dtype.itemsize < x.dtype.itemsize:
        raise error(
            RuntimeError, op, f"the dtype of the input cannot become {dtype} without losing precision", x=x
        )
    return x.to(dtype)


# Matrices --------------------------------------------------------------------------------------------------


def matrix_norm_samples() -> Iterator[Sample]:
    for ord in ("fro", "nuc", 1, -1, 2, -2, inf, -inf):
        yield Sample(real(2, 3, 4), ord)
    yield Sample(real(3, 2, 4), "fro", (0, 2), True)
    yield Sample(real(3, 2, 4), 1, (2, 0))
    yield Sample(real(3, 2, 4), 2, (-1, 0), keepdim=True)
    yield Fails(RuntimeError, real(3))
    yield Fails(RuntimeError, real(3, 3), 3)
    yield Fails(RuntimeError, real(3, 3), "max")
    yield Fails(RuntimeError, real(3, 3), "fro", (0, 0))


@composite(matrix_norm_samples, spaces=("linalg",), out=True)
def matrix_norm(
    input: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Dtype | None = None
) -> Tensor:
    """A matrix norm: "fro", "nuc", or ±1 and ±inf (column and row sums), ±2 (singular values)."""
    op = "linalg.matrix_norm"
    check_tensor(op, input)
    if input._form.ndim < 2 or len(dim) != 2:
        raise error(
            RuntimeError, op, "expected at least 2 dimensions, and two of them as dim", input=input, dim=dim
        )
    if OF_NUMPY[input._form.dtype].category < FLOAT:
        raise error(RuntimeError, op, "expected a floating point or complex tensor as input", input=input)
    input = as_wider(input, dtype, op)
    rows, columns = wrap_dims(op, tuple(dim), input._form.ndim)
    if ord == "fro":
        return vector_norm_op(input, ord=2, dim=(rows, columns), keepdim=keepdim)
    if ord in (1, -1, inf, -inf):
        along, across = (rows, columns) if ord in (1, -1) else (columns, rows)
        sums = vector_norm_op(input, ord=1, dim=(along,), keepdim=True)
        result = sums.amax(across, keepdim=True) if ord > 0 else sums.amin(across, keepdim=True)
    elif ord in (2, -2, "nuc"):
        values = svdvals(input.movedim((rows, columns), (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord > 0 else values.amin(-1)
        for axis in sorted((rows, columns)):
            result = result.unsqueeze(axis)
    else:
        raise error(RuntimeError, op, f"order {ord!r} is not supported")
    return result if keepdim else result.squeeze((rows, columns))


def norm_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3))
    yield Sample(real(4), 3)
    yield Sample(real(2, 3), 2)
    yield Sample(real(2, 3), "nuc")
    yield Sample(real(2, 3), 2, 1)
    yield Sample(real(2, 3, 4), dim=(0, 2), keepdim=True)
    yield Sample(real(2, 3, 4), inf, (0, 2))
    yield Fails(RuntimeError, real(2, 3, 4), 2)
    yield Fails(RuntimeError, whole(3))


@composite(norm_samples, spaces=("linalg",), out=True)
def norm(
    input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Dtype | None = None
) -> Tensor:
    """A matrix norm when `ord` is given and two dimensions are meant, else a vector norm."""
    check_tensor("linalg.norm", input)
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype)
    rank = input._form.ndim
    several = dim is not None and not isinstance(dim, NUMBERS)
    if (dim is None and rank not in (1, 2)) or (several and len(dim) not in (1, 2)):
        rule = "with ord, expected a vector or a matrix, or one or two dimensions"
        raise error(RuntimeError, "linalg.norm", rule, input=input, dim=dim)
    if (dim is None and rank == 2) or (several and len(dim) == 2):
        return matrix_norm(input, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise error(RuntimeError, "linalg.norm", f"order {ord!r} is for matrices", input=input, dim=dim)
    return vector_norm(input, ord, dim, keepdim, dtype=dtype)


# Condition and rank ----------------------------------------------------------------------------------------


def cond_samples() -> Iterator[Sample]:
    yield Sample(invertible(3, 3))
    yield Sample(real(2, 4, 3), 2)
    for p in (-2, "fro", "nuc", 1, -1, inf, -inf):
        yield Sample(invertible(3, 3), p)
    yield Fails(RuntimeError, real(2, 3), 1)
    yield Fails(RuntimeError, real(3))


@composite(cond_samples, spaces=("linalg",), out=True)
def cond(input: Tensor, p: Any = None) -> Tensor:
    """‖A‖·‖A⁻¹‖; for ±2, the default, a ratio of singular values, of any matrix."""
    check_matrix("linalg.cond", input)
    if p in (None, 2, -2):
        values = svdvals(input)
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    check_matrix("linalg.cond", input, square=True)
    if p == "nuc" or p == "fro" or p in (1, -1, inf, -inf):
        return matrix_norm(input, p) * matrix_norm(inv(input), p)
    raise error(RuntimeError, "linalg.cond", f"order {p!r} is not supported")


def rank_samples() -> Iterator[Sample]:
    low = np.outer(np.arange(1.0, 4), np.arange(1.0, 4))
    yield Sample(real(3, 4))
    yield Sample(low)
    yield Sample(np.stack([low, np.eye(3)]), hermitian=True)
    yield Sample(definite(3, 3), atol=1.0, rtol=0.1)
    yield Sample(real(3, 3), 0.5)
    yield Fails(RuntimeError, real(3))


@composite(rank_samples, spaces=("linalg",), out=True)
def matrix_rank(
    input: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values are larger than max(atol, rtol · the largest)."""
    check_matrix("linalg.matrix_rank", input, square=hermitian)
    m, n = input._form.shape[-2:]
    values = eigvalsh(input).abs() if hermitian else svdvals(input)
    if not values._form.shape[-1]:
        return values.sum(-1).long()
    atol = tol if atol is None else atol
    if rtol is None:
        rtol = max(m, n) * float(np.finfo(values._form.dtype).eps) if atol is None else 0.0
    cut = values.amax(-1) * rtol
    if atol is not None:
        cut = cut.maximum(atol) if isinstance(atol, Tensor) else cut.clamp(min=atol)
    return (values > cut.unsqueeze(-1)).sum(-1)


# Renormalising ---------------------------------------------------------------------------------------------


def renorm_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 2, 0, 1.5)
    yield Sample(real(2, 3, 2), 1, -2, 3.0)
    yield Sample(real(3, 4), 3.0, 1, 0.5)
    yield Sample(real(3, 4) * 0.01, 2, 0, 5)
    yield Fails(RuntimeError, real(3, 4), 2, 0, -1.0)
    yield Fails(RuntimeError, real(3), 2, 0, 1.0)
    yield Fails(RuntimeError, real(3, 4), -1, 0, 1.0)


@composite(renorm_samples, method=True, inplace=True, out=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Scales every slice along `dim` whose p-norm is larger than `maxnorm` down to it."""
    check_tensor("renorm", input)
    if p <= 0 or maxnorm < 0:
        raise error(
            RuntimeError, "renorm", "expected a positive p and a maxnorm of at least 0", p=p, maxnorm=maxnorm
        )
    rank = input._form.ndim
    if rank < 2:
        raise error(RuntimeError, "renorm", "input needs at least 2 dimensions", input=input)
    dim = wrap_dim("renorm", dim, rank)
    others = tuple(axis for axis in range(rank) if axis != dim)
    sizes = vector_norm_op(input, ord=p, dim=others, keepdim=True)
    factor = (maxnorm / (sizes + 1e-7)).masked_fill(sizes <= maxnorm, 1)
    return input * factor
