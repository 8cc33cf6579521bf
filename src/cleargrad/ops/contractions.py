"""Products over chosen dimensions: einsum, tensordot, inner, kron, cross, chains of matrices, bilinear forms.

All of them are composites: dimensions are moved and merged until one matrix product (ops/matmul.py) or one
elementwise product does the work. Read next: ops/linear_algebra.py.
"""

from __future__ import annotations

import string
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from cleargrad.core.shape import as_index, broadcast, count, wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite
from cleargrad.ops.matmul import matmul, transposed
from cleargrad.ops.pointwise import conj
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# Einstein's sum --------------------------------------------------------------------------------------------
#
# A label names a dimension: a letter, or a negative number for a dimension under "..." counted from the right.

Labels = tuple
LETTERS = string.ascii_uppercase + string.ascii_lowercase  # subscripts 0 to 51 of the list format


def einsum_samples() -> Iterator[Sample]:
    yield Sample("ij,jk->ik", real(2, 3), real(3, 4, seed=1))
    yield Sample("ij,jk", real(2, 3), real(3, 4, seed=1))
    yield Sample("bij,bjk->bik", real(2, 3, 2), real(2, 2, 4, seed=1))
    yield Sample("...ij,...kj->...ik", real(2, 1, 3, 4), real(5, 2, 4, seed=1))
    yield Sample("ii->i", real(3, 3))
    yield Sample("iij->j", real(3, 3, 2))
    yield Sample("ij->ji", real(2, 3))
    yield Sample("...->", real(2, 3))
    yield Sample("i,j->ij", real(2), real(3, seed=1))
    yield Sample("ij,ij->i", real(2, 3), real(2, 3, seed=1))
    yield Sample("bn,anm,bm->ba", real(2, 3), real(4, 3, 2, seed=1), real(2, 2, seed=2))
    yield Sample("b a, a c -> c b", real(2, 3), real(3, 4, seed=1))
    yield Sample("ij,jk", real(2, 1), real(3, 4, seed=1))
    yield Sample(",i", real(), real(3, seed=1))
    yield Fails(RuntimeError, "ij,jk", real(2, 3), real(4, 5))
    yield Fails(RuntimeError, "ij", real(2, 3), real(4, 5))
    yield Fails(RuntimeError, "ijk", real(2, 3))
    yield Fails(RuntimeError, "ij->ik", real(2, 3))
    yield Fails(RuntimeError, "ij->ii", real(2, 3))
    yield Fails(RuntimeError, "i1", real(2, 3))


@composite(einsum_samples)
def einsum(*args: Any) -> Tensor:
    """Sums of products by Einstein's rule: `einsum("ij,jk->ik", a, b)`, or `einsum(a, [0, 1], b, [1, 2], [0, 2])`."""
    equation, operands = read_arguments(args)
    for x in operands:
        check_tensor("einsum", x, "operands")
    inputs, output = read_equation(equation, tuple(x._data.ndim for x in operands))
    check_sizes(inputs, operands)
    terms = [take_diagonals(x, labels) for x, labels in zip(operands, inputs, strict=True)]
    x, labels = terms[0]
    for position, (y, others) in enumerate(terms[1:], start=1):
        later = {label for _, rest in terms[position + 1 :] for label in rest}
        x, labels = contract(x, labels, y, others, later.union(output))
    x, labels = sum_out(x, labels, set(output))
    return arrange(x, labels, output)


def read_arguments(args: tuple) -> tuple[str, Sequence[Tensor]]:
    """The equation and the operands, from either format."""
    if not args:
        raise error(ValueError, "einsum", "must specify the equation string and at least one operand")
    if isinstance(args[0], str):
        operands = args[1:]
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = operands[0]
        if not operands:
            raise error(RuntimeError, "einsum", "must provide at least one operand")
        return args[0], operands
    equation = ",".join(map(letters_of, args[1::2][: len(args) // 2]))
    if len(args) % 2:
        equation += "->" + letters_of(args[-1])
    return equation, args[0 : len(args) // 2 * 2 : 2]


def letters_of(subscripts: Sequence) -> str:
    letters = []
    for item in subscripts:
        if item is not Ellipsis and not 0 <= as_index("einsum", item) < len(LETTERS):
            raise error(RuntimeError, "einsum", f"subscripts must be in the range [0, 52), not {item}")
        letters.append("..." if item is Ellipsis else LETTERS[item])
    return "".join(letters)


@lru_cache(maxsize=1024)
def read_equation(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of every operand and of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        rule = f"the equation names {len(parts)} operands, {len(ranks)} were given"
        raise error(RuntimeError, "einsum", rule, equation=equation)
    inputs = tuple(labels_of(part, rank, equation) for part, rank in zip(parts, ranks, strict=True))
    used = [label for labels in inputs for label in labels]
    hidden = tuple(sorted({label for label in used if type(label) is int}))
    if not arrow:
        letters = sorted(label for label in set(used) if type(label) is str and used.count(label) == 1)
        return inputs, (*hidden, *letters)
    shown = len(hidden) if "..." in right else 0
    output = labels_of(right, len(right.replace("...", "")) + shown, equation)
    if len(set(output)) != len(output):
        raise error(RuntimeError, "einsum", "a subscript appears more than once in the output", equation=equation)
    if not set(output) <= set(used):
        rule = "a subscript of the output does not appear in any operand"
        raise error(RuntimeError, "einsum", rule, equation=equation)
    return inputs, output


def labels_of(part: str, rank: int, equation: str) -> Labels:
    before, dots, after = part.partition("...")
    if not all(letter in LETTERS for letter in before + after):
        rule = "subscripts are letters, and one '...' for each operand"
        raise error(RuntimeError, "einsum", rule, equation=equation)
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        rule = f"the number of subscripts in '{part}' does not match the operand's {rank} dimensions"
        raise error(RuntimeError, "einsum", rule, equation=equation)
    return (*before, *range(-hidden, 0), *after)


def check_sizes(inputs: tuple[Labels, ...], operands: Sequence[Tensor]) -> None:
    """A label has one size everywhere, or 1."""
    sizes: dict = {}
    for labels, x in zip(inputs, operands, strict=True):
        for label, size in zip(labels, x._data.shape, strict=True):
            seen = sizes.setdefault(label, size)
            if size not in (1, seen) and seen != 1:
                rule = f"subscript {label} has size {size}, which does not broadcast with {seen}"
                raise error(RuntimeError, "einsum", rule, operand=x)
            sizes[label] = max(seen, size) if 1 in (seen, size) else size


def take_diagonals(x: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """A label that appears twice on one operand walks along its diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            sizes = x._data.shape
            if sizes[first] != sizes[second]:
                rule = f"subscript {label} is repeated for dimensions of different sizes"
                raise error(RuntimeError, "einsum", rule, operand=x)
            x = x.diagonal(0, first, second)
            labels = (*labels[:first], *labels[first + 1 : second], *labels[second + 1 :], label)
    return x, labels


def sum_out(x: Tensor, labels: Labels, keep: set) -> tuple[Tensor, Labels]:
    dims = tuple(k for k, label in enumerate(labels) if label not in keep)
    if not dims:
        return x, labels
    return x.sum(dims), tuple(label for label in labels if label in keep)


def arrange(x: Tensor, labels: Labels, order: Labels) -> Tensor:
    return x if labels == order else x.permute(tuple(labels.index(label) for label in order))


def contract(x: Tensor, left: Labels, y: Tensor, right: Labels, keep: set) -> tuple[Tensor, Labels]:
    """One product of two operands that sums every shared label nobody needs any more."""
    x, left = sum_out(x, left, keep.union(right))
    y, right = sum_out(y, right, keep.union(left))
    x, left = drop_ones(x, left, y, right)
    y, right = drop_ones(y, right, x, left)
    shared = [label for label in left if label in right]
    summed = tuple(label for label in shared if label not in keep)
    batch = tuple(label for label in shared if label in keep)
    rows = tuple(label for label in left if label not in right)
    columns = tuple(label for label in right if label not in left)
    if not summed:
        return align(x, left, batch + rows, len(columns)) * align(y, right, batch, 0, rows, columns), batch + rows + columns
    x = arrange(x, left, batch + rows + summed)
    y = arrange(y, right, batch + summed + columns)
    groups = (len(batch), len(rows), len(summed), len(columns))
    return multiply_groups(x, y, *groups), batch + rows + columns


def drop_ones(x: Tensor, labels: Labels, y: Tensor, others: Labels) -> tuple[Tensor, Labels]:
    """A dimension of size 1 beside a larger one of the same label broadcasts: it says nothing."""
    sizes = y._data.shape
    dims = [
        k
        for k, label in enumerate(labels)
        if x._data.shape[k] == 1 and label in others and sizes[others.index(label)] != 1
    ]
    for dim in reversed(dims):
        x = x.squeeze(dim)
    return x, tuple(label for k, label in enumerate(labels) if k not in dims)


def align(x: Tensor, labels: Labels, order: Labels, ones: int, gap: Labels = (), rest: Labels = ()) -> Tensor:
    """Dimensions in the given order, with size-one dimensions for `gap` and at the end."""
    x = arrange(x, labels, order + rest)
    for _ in gap:
        x = x.unsqueeze(len(order))
    for _ in range(ones):
        x = x.unsqueeze(-1)
    return x


def multiply_groups(x: Tensor, y: Tensor, batch: int, rows: int, summed: int, columns: int) -> Tensor:
    """x has dimensions (batch, rows, summed), y (batch, summed, columns), each a group of so many."""
    a, b = x._data.shape, y._data.shape
    lead, inner = a[:batch], count(a[batch + rows :])
    height, width = a[batch : batch + rows], b[batch + summed :]
    one = [count(lead)] if batch > 1 else list(lead)
    x = merged(x, (*one, count(height), inner))
    y = merged(y, (*one, inner, count(width)))
    return merged(matmul(x, y), (*lead, *height, *width))


def merged(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x._data.shape == shape else x.reshape(shape)


# Other ways to say which dimensions ---------------------------------------------------------------------------


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
    """The sum of products over pairs of dimensions: the last `dims` of a with the first of b, or two lists."""
    check_tensor("tensordot", a, "a")
    check_tensor("tensordot", b, "b")
    first, second = dimension_pairs(a, b, dims)
    for i, j in zip(first, second, strict=True):
        sizes = a._data.shape[i], b._data.shape[j]
        if sizes[0] != sizes[1] and 1 not in sizes:
            rule = f"contracted dimensions need to match, but {i} of a and {j} of b do not"
            raise error(RuntimeError, "tensordot", rule, a=a, b=b)
        if sizes[0] == 1 != sizes[1]:
            b = b.sum(j, keepdim=True, dtype=b.dtype)
        elif sizes[1] == 1 != sizes[0]:
            a = a.sum(i, keepdim=True, dtype=a.dtype)
    rows = tuple(k for k in range(a._data.ndim) if k not in first)
    columns = tuple(k for k in range(b._data.ndim) if k not in second)
    x, y = a.permute(rows + first), b.permute(second + columns)
    return multiply_groups(x, y, 0, len(rows), len(first), len(columns))


def dimension_pairs(a: Tensor, b: Tensor, dims: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)):
        first, second = dims if len(dims) == 2 and isinstance(dims[0], (list, tuple)) else (dims, dims)
    else:
        if dims < 0 or dims > min(a._data.ndim, b._data.ndim):
            rule = f"dims must lie between 0 and both numbers of dimensions, not {dims}"
            raise error(RuntimeError, "tensordot", rule, a=a, b=b)
        first, second = range(a._data.ndim - dims, a._data.ndim), range(dims)
    if len(first) != len(second):
        raise error(RuntimeError, "tensordot", "both dimension lists should have the same length", dims=str(dims))
    return (
        tuple(wrap_dim("tensordot", k, a._data.ndim) for k in first),
        tuple(wrap_dim("tensordot", k, b._data.ndim) for k in second),
    )


def inner_samples() -> Iterator[Sample]:
    yield Sample(real(3), real(3, seed=1))
    yield Sample(real(2, 3), real(4, 3, seed=1))
    yield Sample(real(2, 3), real(), )
    yield Fails(RuntimeError, real(2, 3), real(2))


@composite(inner_samples, method=True, out=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sums of products over the last dimensions of both."""
    check_tensor("inner", input)
    check_tensor("inner", other, "other")
    if not input._data.ndim or not other._data.ndim:
        return input * other
    if input._data.shape[-1] != other._data.shape[-1]:
        raise error(RuntimeError, "inner", "the last dimensions must have the same size", input=input, other=other)
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
    rank = max(input._data.ndim, other._data.ndim)
    a, b = ((1,) * (rank - x._data.ndim) + x._data.shape for x in (input, other))
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
    if input._data.ndim != 2:
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
    if x._data.dtype != y._data.dtype:
        raise error(RuntimeError, "linalg.vecdot", "expected vectors of the same dtype", x=x, y=y)
    result = conj(x) * y
    return result.sum(wrap_dim("linalg.vecdot", dim, result._data.ndim), dtype=x.dtype)


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
    if input._data.ndim != other._data.ndim:
        raise error(RuntimeError, name, "inputs must have the same number of dimensions", input=input, other=other)
    dim = wrap_dim(name, dim, input._data.ndim)
    if input._data.shape[dim] != 3 or other._data.shape[dim] != 3:
        raise error(RuntimeError, name, f"inputs dimension {dim} must have length 3", input=input, other=other)
    broadcast(name, input._data.shape, other._data.shape)
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
        threes = [k for k, size in enumerate(input._data.shape) if size == 3]
        if not threes:
            raise error(RuntimeError, "cross", "no dimension of size 3 in input", input=input)
        dim = threes[0]
    return cross_product("cross", input, other, dim)


cross_anywhere.__name__ = "cross"
composite(torch_cross_samples, method=True, out=True)(cross_anywhere)


# Chains and bilinear forms -----------------------------------------------------------------------------------


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
    row, column = (x._data.ndim == 1 for x in (tensors[0], tensors[-1]))
    chain = list(tensors)
    if row:
        chain[0] = chain[0].unsqueeze(0)
    if column:
        chain[-1] = chain[-1].unsqueeze(-1)
    for k, x in enumerate(chain):
        if x._data.ndim != 2:
            raise error(RuntimeError, name, f"tensor {k} must be a matrix", tensor=x)
        if k and chain[k - 1]._data.shape[1] != x._data.shape[0]:
            raise error(RuntimeError, name, f"tensors {k - 1} and {k} cannot be multiplied", left=chain[k - 1], right=x)
    result = product_of(chain, best_splits([x._data.shape[0] for x in chain] + [chain[-1]._data.shape[1]]))
    if column:
        result = result.squeeze(-1)
    return result.squeeze(0) if row else result


def best_splits(sizes: list[int]) -> Callable[[int, int], int]:
    """Where to cut matrices i..j so that the fewest multiplications remain (dynamic programming)."""

    @lru_cache(maxsize=None)
    def cost(i: int, j: int) -> tuple[int, int]:
        if i == j:
            return 0, i
        joint = ((cost(i, k)[0] + cost(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))
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
    rule = "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot"
    warnings.warn(rule, UserWarning, stacklevel=3)
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


def bilinear_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), real(2, 4, seed=1), real(5, 3, 4, seed=2))
    yield Sample(real(2, 2, 3), real(2, 2, 4, seed=1), real(2, 3, 4, seed=2), real(2, seed=3))
    yield Fails(RuntimeError, real(2, 3), real(2, 4), real(5, 4, 3))
    yield Fails(RuntimeError, real(2, 3), real(3, 4), real(5, 3, 4))


@composite(bilinear_samples, spaces=("nn.functional",))
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1ᵀ · weight[k] · input2 + bias[k] for every k."""
    a, b, w = input1._data.shape, input2._data.shape, weight._data.shape
    if len(w) != 3 or a[:-1] != b[:-1] or a[-1] != w[1] or b[-1] != w[2]:
        rule = "expected inputs (*, in1) and (*, in2) and a weight (out, in1, in2)"
        raise error(RuntimeError, "bilinear", rule, input1=input1, input2=input2, weight=weight)
    result = einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias
