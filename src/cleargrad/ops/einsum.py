"""Einstein's sum.

Dimensions are moved and merged until one matrix product (ops/matmul.py) or elementwise product of each pair
of operands does the work, so that gradients come from the parts. Read next: ops/contractions.py.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from cleargrad.core.shape import as_index, count
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite
from cleargrad.ops.matmul import matmul
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor

# A label names a dimension: a letter, or a negative number for one under "...", counted from the right.

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
    """Sums of products by Einstein's rule.

    `einsum("ij,jk->ik", a, b)`, or the same with numbers for letters: `einsum(a, [0, 1], b, [1, 2], [0, 2])`.
    """
    equation, operands = read_arguments(args)
    for x in operands:
        check_tensor("einsum", x, "operands")
    inputs, output = read_equation(equation, tuple(x._form.ndim for x in operands))
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
        operands: Sequence[Tensor] = args[1:]
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
        raise error(
            RuntimeError, "einsum", "a subscript appears more than once in the output", equation=equation
        )
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
        for label, size in zip(labels, x._form.shape, strict=True):
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
            sizes = x._form.shape
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
    (x, left), (y, right) = drop_ones(x, left, y, right), drop_ones(y, right, x, left)
    x, left = sum_out(x, left, keep.union(right))
    y, right = sum_out(y, right, keep.union(left))
    shared = [label for label in left if label in right]
    summed = tuple(label for label in shared if label not in keep)
    batch = tuple(label for label in shared if label in keep)
    rows = tuple(label for label in left if label not in right)
    columns = tuple(label for label in right if label not in left)
    if not summed:
        return align(x, left, batch + rows, len(columns)) * align(
            y, right, batch, 0, rows, columns
        ), batch + rows + columns
    x = arrange(x, left, batch + rows + summed)
    y = arrange(y, right, batch + summed + columns)
    groups = (len(batch), len(rows), len(summed), len(columns))
    return multiply_groups(x, y, *groups), batch + rows + columns


def drop_ones(x: Tensor, labels: Labels, y: Tensor, others: Labels) -> tuple[Tensor, Labels]:
    """A dimension of size 1 beside a larger one of the same label broadcasts: it says nothing."""
    sizes = y._form.shape
    dims = [
        k
        for k, label in enumerate(labels)
        if x._form.shape[k] == 1 and label in others and sizes[others.index(label)] != 1
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
    a, b = x._form.shape, y._form.shape
    lead, inner = a[:batch], count(a[batch + rows :])
    height, width = a[batch : batch + rows], b[batch + summed :]
    one = [count(lead)] if batch > 1 else list(lead)
    x = merged(x, (*one, count(height), inner))
    y = merged(y, (*one, inner, count(width)))
    return merged(matmul(x, y), (*lead, *height, *width))


def merged(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x._form.shape == shape else x.reshape(shape)
