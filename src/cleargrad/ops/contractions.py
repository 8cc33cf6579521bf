"""Products over chosen dimensions: tensordot, inner, kron, trace, cross, chains of matrices, bilinear forms.

All of them are composites. Read next: ops/linear_algebra.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from cleargrad.core.shape import broadcast, wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite
from cleargrad.ops.einsum import einsum, multiply_groups
from cleargrad.ops.joining import cat, stack
from cleargrad.ops.matmul import matmul
from cleargrad.ops.pointwise import conj
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor


def tensordot_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3, 4), real(3, 4, 5, seed=1))
    yield Sample(real(2, 3, 4), real(4, 2, seed=1), 1)
    yield Sample(real(2, 3), real(4, seed=1), 0)
    yield Sample(real(3, 4, 5), real(4, 3, 2, seed=1), dims=([1, 0], [0, 1]))
    yield Sample(real(3, 4), real(1, 3, seed=1), ([1], [0]))
    yield Fails(RuntimeError, real(2, 3), real(4, 5), 1)
    yield Fails(RuntimeError, real(2, 3), real(3, 2), ([1], [0, 1]))
    yield Fails(RuntimeError, real(2, 3), real(3, 2), -1)


@composite(tensordot_samples, out=True)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The sum of products over pairs of dimensions: the last `dims` of a with b's first, or two lists."""
    check_tensor("tensordot", a, "a")
    check_tensor("tensordot", b, "b")
    first, second = dimension_pairs(a, b, dims)
    for i, j in zip(first, second, strict=True):
        sizes = a._form.shape[i], b._form.shape[j]
        if sizes[0] != sizes[1] and 1 not in sizes:
            rule = f"contracted dimensions need to match, but {i} of a and {j} of b do not"
            raise error(RuntimeError, "tensordot", rule, a=a, b=b)
        if sizes[0] == 1 != sizes[1]:
            b = b.sum(j, keepdim=True, dtype=b.dtype)
        elif sizes[1] == 1 != sizes[0]:
            a = a.sum(i, keepdim=True, dtype=a.dtype)
    rows = tuple(k for k in range(a._form.ndim) if k not in first)
    columns = tuple(k for k in range(b._form.ndim) if k not in second)
    x, y = a.permute(rows + first), b.permute(second + columns)
    return multiply_groups(x, y, 0, len(rows), len(first), len(columns))


def dimension_pairs(a: Tensor, b: Tensor, dims: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)):
        first, second = dims if len(dims) == 2 and isinstance(dims[0], (list, tuple)) else (dims, dims)
    else:
        if dims < 0 or dims > min(a._form.ndim, b._form.ndim):
            rule = f"dims must lie between 0 and both numbers of dimensions, not {dims}"
            raise error(RuntimeError, "tensordot", rule, a=a, b=b)
        first, second = range(a._form.ndim - dims, a._form.ndim), range(dims)
    if len(first) != len(second):
        raise error(
            RuntimeError, "tensordot", "both dimension lists should have the same length", dims=str(dims)
        )
    return (
        tuple(wrap_dim("tensordot", k, a._form.ndim) for k in first),
        tuple(wrap_dim("tensordot", k, b._form.ndim) for k in second),
    )


def inner_samples() -> Iterator[Sample]:
    yield Sample(real(3), real(3, seed=1))
    yield Sample(real(2, 3), real(4, 3, seed=1))
    yield Sample(
        real(2, 3),
        real(),
    )
    yield Fails(RuntimeError, real(2, 3), real(2))


@composite(inner_samples, method=True, out=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sums of products over the last dimensions of both."""
    check_tensor("inner", input)
    check_tensor("inner", other, "other")
    if not input._form.ndim or not other._form.ndim:
        return input * other
    if input._form.shape[-1] != other._form.shape[-1]:
        raise error(
            RuntimeError, "inner", "the last dimensions must have the same size", input=input, other=other
        )
    return tensordot(input, other, ([-1], [-1]))


def kron_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), real(3, 2, seed=1))
    yield Sample(real(2), real(2, 3, seed=1))
    yield Sample(real(), real(2, seed=1))
    yield Fails(TypeError, real(2), None)


@composite(kron_samples, method=True, out=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker's product: every element of `input` times all of `other`, as blocks."""
    check_tensor("kron", input)
    check_tensor("kron", other, "other")
    rank = max(input._form.ndim, other._form.ndim)
    a, b = ((1,) * (rank - x._form.ndim) + x._form.shape for x in (input, other))
    outer = input.reshape([size for pair in zip(a, (1,) * rank, strict=True) for size in pair])
    inside = other.reshape([size for pair in zip((1,) * rank, b, strict=True) for size in pair])
    return (outer * inside).reshape([m * n for m, n in zip(a, b, strict=True)])


def trace_samples() -> Iterator[Sample]:
    yield Sample(real(3, 3))
    yield Sample(real(2, 4))
    yield Sample(whole(3, 3))
    yield Fails(RuntimeError, real(3))
    yield Fails(RuntimeError, real(2, 3, 3))


@composite(trace_samples, method=True)
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    check_tensor("trace", input)
    if input._form.ndim != 2:
        raise error(RuntimeError, "trace", "expected a matrix", input=input)
    return input.diagonal().sum()


# Vectors ---------------------------------------------------------------------------------------------------


def vecdot_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), real(2, 3, seed=1))
    yield Sample(real(2, 3), real(3, seed=1))
    yield Sample(real(2, 3), real(2, 1, seed=1), dim=0)
    yield Fails(RuntimeError, real(2, 3), real(2))
    yield Fails(RuntimeError, real(2, 3), whole(3))


@composite(vecdot_samples, spaces=("linalg",), out=True)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The dot products of vectors along a dimension; the first are conjugated."""
    check_tensor("linalg.vecdot", x, "x")
    check_tensor("linalg.vecdot", y, "y")
    if x._form.dtype != y._form.dtype:
        raise error(RuntimeError, "linalg.vecdot", "expected vectors of the same dtype", x=x, y=y)
    result = conj(x) * y
    return result.sum(wrap_dim("linalg.vecdot", dim, result._form.ndim), dtype=x.dtype)


def cross_samples() -> Iterator[Sample]:
    yield Sample(real(3), real(3, seed=1))
    yield Sample(real(2, 3), real(2, 3, seed=1))
    yield Sample(real(3, 2), real(3, 2, seed=1), dim=0)
    yield Sample(real(2, 3), real(1, 3, seed=1))
    yield Fails(RuntimeError, real(2, 4), real(2, 4))
    yield Fails(IndexError, real(2, 3), real(2, 3), dim=2)


def torch_cross_samples() -> Iterator[Sample]:
    yield Sample(real(3), real(3, seed=1))
    yield Sample(real(3, 2), real(3, 2, seed=1), 0)
    yield Sample(real(2, 3), real(2, 3, seed=1))
    yield Fails(RuntimeError, real(2, 4), real(2, 4))


def cross_product(name: str, input: Tensor, other: Tensor, dim: int) -> Tensor:
    check_tensor(name, input)
    check_tensor(name, other, "other")
    if input._form.ndim != other._form.ndim:
        raise error(
            RuntimeError, name, "inputs must have the same number of dimensions", input=input, other=other
        )
    dim = wrap_dim(name, dim, input._form.ndim)
    if input._form.shape[dim] != 3 or other._form.shape[dim] != 3:
        raise error(
            RuntimeError, name, f"inputs dimension {dim} must have length 3", input=input, other=other
        )
    broadcast(name, input._form.shape, other._form.shape)
    ahead, behind = (lambda x: x.roll(-1, dim)), (lambda x: x.roll(1, dim))
    return ahead(input) * behind(other) - behind(input) * ahead(other)


@composite(cross_samples, spaces=("linalg",), out=True)
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three along a dimension."""
    return cross_product("linalg.cross", input, other, dim)


def cross_anywhere(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product along `dim`, or along the first dimension of size 3."""
    if dim is None:
        check_tensor("cross", input)
        threes = [k for k, size in enumerate(input._form.shape) if size == 3]
        if not threes:
            raise error(RuntimeError, "cross", "no dimension of size 3 in input", input=input)
        warnings.warn(
            "Using torch.cross without specifying the dim arg is deprecated.\n"
            "Please either pass the dim explicitly or simply use torch.linalg.cross.\n"
            "The default value of dim will change to agree with that of linalg.cross in a future release.",
            stacklevel=2,
        )
        dim = threes[0]
    return cross_product("cross", input, other, dim)


cross_anywhere.__name__ = "cross"
composite(torch_cross_samples, method=True, out=True)(cross_anywhere)


# Chains and bilinear forms ---------------------------------------------------------------------------------


def chain_samples() -> Iterator[Sample]:
    yield Sample([real(2, 3), real(3, 4, seed=1)])
    yield Sample([real(2, 5), real(5, 3, seed=1), real(3, 4, seed=2)])
    yield Sample([real(3), real(3, 4, seed=1), real(4, 2, seed=2), real(2, seed=3)])
    yield Fails(RuntimeError, [real(2, 3)])
    yield Fails(RuntimeError, [real(2, 3), real(2, 3)])
    yield Fails(RuntimeError, [real(2, 3), real(3), real(3, 2)])


@composite(chain_samples, spaces=("linalg",), out=True)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices in the cheapest order; the first and the last may be vectors."""
    name = "linalg.multi_dot"
    if len(tensors) < 2:
        raise error(RuntimeError, name, "expected at least 2 tensors")
    row, column = (x._form.ndim == 1 for x in (tensors[0], tensors[-1]))
    chain = list(tensors)
    if row:
        chain[0] = chain[0].unsqueeze(0)
    if column:
        chain[-1] = chain[-1].unsqueeze(-1)
    for k, x in enumerate(chain):
        if x._form.ndim != 2:
            raise error(RuntimeError, name, f"tensor {k} must be a matrix", tensor=x)
        if k and chain[k - 1]._form.shape[1] != x._form.shape[0]:
            raise error(
                RuntimeError,
                name,
                f"tensors {k - 1} and {k} cannot be multiplied",
                left=chain[k - 1],
                right=x,
            )
    result = product_of(chain, best_splits([x._form.shape[0] for x in chain] + [chain[-1]._form.shape[1]]))
    if column:
        result = result.squeeze(-1)
    return result.squeeze(0) if row else result


def best_splits(sizes: list[int]) -> Callable[[int, int], int]:
    """Where to cut matrices i..j so that the fewest multiplications remain (dynamic programming)."""

    @cache
    def cost(i: int, j: int) -> tuple[int, int]:
        if i == j:
            return 0, i
        joint = (
            (cost(i, k)[0] + cost(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
            for k in range(i, j)
        )
        return min(joint)

    return lambda i, j: cost(i, j)[1]


def product_of(chain: list[Tensor], split: Callable[[int, int], int]) -> Tensor:
    def between(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        k = split(i, j)
        return matmul(between(i, k), between(k + 1, j))

    return between(0, len(chain) - 1)


def chain_matmul_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), real(3, 4, seed=1), real(4, 2, seed=2))
    yield Fails(RuntimeError, real(2, 3), real(2, 3))


@composite(chain_matmul_samples, out=True)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The older name of linalg.multi_dot, with matrices as arguments."""
    advice = "torch.chain_matmul is deprecated and will be removed in a future PyTorch release."
    warnings.warn(f"{advice} Use torch.linalg.multi_dot instead.", UserWarning, stacklevel=3)
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


def bilinear_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), real(2, 4, seed=1), real(5, 3, 4, seed=2))
    yield Sample(real(2, 2, 3), real(2, 2, 4, seed=1), real(2, 3, 4, seed=2), real(2, seed=3))
    yield Fails(RuntimeError, real(2, 3), real(2, 4), real(5, 4, 3))
    yield Fails(RuntimeError, real(2, 3), real(3, 4), real(5, 3, 4))


@composite(bilinear_samples, spaces=("nn.functional",))
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1ᵀ · weight[k] · input2 + bias[k] for every k."""
    a, b, w = input1._form.shape, input2._form.shape, weight._form.shape
    if len(w) != 3 or a[:-1] != b[:-1] or a[-1] != w[1] or b[-1] != w[2]:
        rule = "expected inputs (*, in1) and (*, in2) and a weight (out, in1, in2)"
        raise error(RuntimeError, "bilinear", rule, input1=input1, input2=input2, weight=weight)
    result = einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias


# Products of groups: not in the table of ops, since PyTorch's takes only rows of a multiple of 16 bytes.


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """One matrix product per group: experts that see different numbers of tokens.

    A 3-d operand has a matrix per group. A 2-d one is cut where `offs` says each group ends: the rows of mat_a, the
    columns of mat_b, or, when both are 2-d, the dimension they share. What lies past the last end gives zeros.
    """
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3):
        rule = "offs is needed exactly when an operand is 2-d"
        raise error(RuntimeError, "grouped_mm", rule, mat_a=mat_a, mat_b=mat_b)
    if mat_a.shape[-1] != mat_b.shape[-2]:
        rule = "contraction dimension of mat_a and mat_b must match"
        raise error(RuntimeError, "grouped_mm", rule, mat_a=mat_a, mat_b=mat_b)
    if bias is not None:
        raise error(RuntimeError, "grouped_mm", "bias is not supported", fix="add it to the result")
    result = matmul(mat_a, mat_b) if offs is None else products_of_groups(mat_a, mat_b, offs.tolist())
    return result if out_dtype is None else result.to(out_dtype)


def products_of_groups(mat_a: Tensor, mat_b: Tensor, ends: list[int]) -> Tensor:
    cuts = list(zip([0, *ends[:-1]], ends, strict=True))
    if mat_a.ndim == mat_b.ndim == 2:
        return stack([mat_a[:, start:end] @ mat_b[start:end] for start, end in cuts])
    if mat_a.ndim == 2:
        parts = [mat_a[start:end] @ mat_b[group] for group, (start, end) in enumerate(cuts)]
        rest = mat_a.new_zeros(mat_a.shape[0] - ends[-1], mat_b.shape[-1])
        return cat([*parts, rest])
    parts = [mat_a[group] @ mat_b[:, start:end] for group, (start, end) in enumerate(cuts)]
    rest = mat_a.new_zeros(mat_a.shape[1], mat_b.shape[-1] - ends[-1])
    return cat([*parts, rest], 1)
