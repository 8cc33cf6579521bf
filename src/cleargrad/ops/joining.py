"""Joining: several tensors into one, along a dimension that exists (cat) or a new one (stack).

Read next: ops/rearranging.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from cleargrad.core.dtype import OF_NUMPY, dtype, get_default_dtype, promote_types
from cleargrad.core.shape import Spec, count, wrap_dim
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, fused, opaque
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor, reshape, unsqueeze


def tensor_list(op: str, tensors: Any, kind: type[Exception] = RuntimeError) -> tuple[Tensor, ...]:
    """The operands of an op that takes a list of tensors, which must not be empty."""
    if not isinstance(tensors, (list, tuple)):
        rule = f"argument 'tensors' must be tuple of Tensors, not {type(tensors).__name__}"
        raise error(TypeError, op, rule)
    if not tensors:
        raise error(kind, op, "expected a non-empty list of Tensors")
    for position, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            check_tensor(op, tensor, f"tensors[{position}]")
    return tuple(tensors)


def common_dtype(arrays: Sequence[Any]) -> dtype:
    """The promoted dtype of tensors or arrays."""
    kinds = {x.dtype for x in arrays}
    return reduce(promote_types, (OF_NUMPY.get(kind, kind) for kind in kinds))


# Along a dimension that exists -----------------------------------------------------------------------------
#
# By an old rule a tensor of shape (0,) may join tensors of any rank and adds nothing; its entry in `sizes`,
# which says how long every operand is along `dim`, is None.


def run_cat(*xs: np.ndarray, dim: int, sizes: tuple[int | None, ...]) -> np.ndarray:
    kind = common_dtype(xs).numpy
    joined = [x for x, size in zip(xs, sizes, strict=True) if size is not None]
    # In order, as PyTorch: NumPy follows the operands' layout, and then .view() of the result may fail.
    return np.ascontiguousarray(np.concatenate(joined, dim, dtype=kind, casting="unsafe"))


def cat_spec(*xs: Tensor, dim: int, sizes: tuple[int | None, ...]) -> Spec:
    shapes = [x._form.shape for x, size in zip(xs, sizes, strict=True) if size is not None]
    first = shapes[0]
    for position, shape in enumerate(shapes):
        if not shape:
            rule = f"zero-dimensional tensor (at position {position}) cannot be concatenated"
            raise error(RuntimeError, "cat", rule)
        if len(shape) != len(first):
            rule = f"tensors must have same number of dimensions: got {len(first)} and {len(shape)}"
            raise error(RuntimeError, "cat", rule)
        if (*shape[:dim], *shape[dim + 1 :]) != (*first[:dim], *first[dim + 1 :]):
            rule = f"sizes of tensors must match except in dimension {dim}"
            raise error(RuntimeError, "cat", rule, first=str(first), other=str(shape), position=position)
    total = sum(size for size in sizes if size is not None)
    return Spec((*first[:dim], total, *first[dim + 1 :]), common_dtype(xs))


def cat_vjp(g: Tensor, *, dim: int, sizes: tuple[int | None, ...]) -> list[Tensor]:
    """Every operand gets its own slice."""
    starts = accumulate((size or 0 for size in sizes), initial=0)
    return [
        g.new_zeros(0) if size is None else g.narrow(dim, start, size)
        for start, size in zip(starts, sizes, strict=False)
    ]


cat_op = opaque(
    "cat",
    spec=cat_spec,
    run=run_cat,
    vjp=cat_vjp,
    samples=lambda: iter(
        [
            Sample([real(2, 3), real(4, 3, seed=1)]),
            Sample([real(2, 3), real(2, 1, seed=1), real(2, 0)], -1),
            Sample([real(2, 3), real(0)]),
            Sample((real(3),), dim=0),
            Fails(ValueError, []),
            Fails(RuntimeError, [real(2, 3), real(2, 4)]),
            Fails(RuntimeError, [real(2, 3), real(3)]),
            Fails(RuntimeError, [real(), real()]),
            Fails(IndexError, [real(2, 3)], 2),
            Fails(TypeError, real(2, 3)),
        ]
    ),
    spec_first=False,
)


@face(cat_op, out=True, aliases=("concat", "concatenate"))
def cat(tensors: Sequence[Tensor], dim: int = 0, *, axis: int | None = None) -> Tensor:
    """Joins tensors along a dimension; all other sizes must match."""
    operands = tensor_list("cat", tensors, ValueError)
    shapes = [operand._form.shape for operand in operands]
    skipped = [shape == (0,) for shape in shapes]
    if all(skipped):
        skipped = [False] * len(shapes)
    rank = len(shapes[skipped.index(False)])
    if () in shapes:
        rule = f"zero-dimensional tensor (at position {shapes.index(())}) cannot be concatenated"
        raise error(RuntimeError, "cat", rule)
    dim = wrap_dim("cat", dim if axis is None else axis, rank)
    sizes = tuple(
        None if skip else shape[dim] if dim < len(shape) else 1
        for shape, skip in zip(shapes, skipped, strict=True)
    )
    return cat_op(*operands, dim=dim, sizes=sizes)


# Along a new dimension -------------------------------------------------------------------------------------


def run_stack(*xs: np.ndarray, dim: int) -> np.ndarray:
    kind = common_dtype(xs).numpy
    if dim:
        return np.ascontiguousarray(np.stack(xs, dim, dtype=kind, casting="unsafe"))
    # One after the other in memory: no view of every operand is needed, which is most of np.stack's time.
    shape = xs[0].shape
    if not shape:
        return np.array(xs, kind)
    joined = np.concatenate(xs, dtype=kind, casting="unsafe")
    lengths = list(map(len, xs))  # concatenate has compared the other dimensions
    if lengths.count(shape[0]) < len(xs):
        raise ValueError("the spec says what is wrong")
    return np.ascontiguousarray(joined).reshape(len(xs), *shape)


def stack_spec(*xs: Tensor, dim: int) -> Spec:
    first = xs[0]._form.shape
    for position, x in enumerate(xs):
        if x._form.shape != first:
            rule = f"expects each tensor to be equal size, but got {list(first)} at entry 0"
            entry: dict[str, Any] = {f"entry {position}": x}
            raise error(RuntimeError, "stack", rule, **entry)
    return Spec((*first[:dim], len(xs), *first[dim:]), common_dtype(xs))


stack_op = fused(
    "stack",
    lambda *xs, dim: cat([x.unsqueeze(dim) for x in xs], dim),
    spec=stack_spec,
    run=run_stack,
    vjp=lambda g, *, dim: g.unbind(dim),
    samples=lambda: iter(
        [
            Sample([real(2, 3), real(2, 3, seed=1)]),
            Sample([real(2, 3), real(2, 3, seed=1), real(2, 3, seed=2)], -1),
            Sample((real(), real(seed=1)), dim=0),
            Fails(RuntimeError, []),
            Fails(RuntimeError, [real(2, 3), real(3)]),
            Fails(IndexError, [real(2, 3)], 3),
            Fails(TypeError, real(2, 3)),
        ]
    ),
    spec_first=False,
    rounds=False,
)


@face(stack_op, out=True)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Joins tensors of one shape along a new dimension."""
    operands = tensor_list("stack", tensors)
    return stack_op(*operands, dim=wrap_dim("stack", dim, operands[0]._form.ndim + 1))


# At least so many dimensions -------------------------------------------------------------------------------


def at_least(name: str, grow: Callable[[Tensor], Tensor], words: str) -> Callable:
    """The family of atleast_1d: one tensor, or several (then a tuple comes back)."""

    def grown(*tensors: Any) -> Tensor | tuple[Tensor, ...]:
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return grow(tensors[0])
        if len(tensors) == 1:
            tensors = tuple(tensors[0])
        for tensor in tensors:
            check_tensor(name, tensor, "tensors")
        return tuple(grow(tensor) for tensor in tensors)

    def samples() -> Iterator[Sample]:
        yield Sample(real())
        yield Sample(real(3))
        yield Sample(real(2, 3))
        yield Sample(real(1, 2, 3))
        yield Sample(real(), real(2))
        yield Sample((real(), real(2, 2)))
        yield Fails(TypeError, "a", "b")

    grown.__name__ = grown.__qualname__ = name
    grown.__doc__ = words
    return composite(samples)(grown)


def to_1d(x: Tensor) -> Tensor:
    return x if x._form.ndim else reshape(x, (1,))


def to_2d(x: Tensor) -> Tensor:
    return x if x._form.ndim > 1 else unsqueeze(to_1d(x), 0)


def to_3d(x: Tensor) -> Tensor:
    return x if x._form.ndim > 2 else unsqueeze(to_2d(x), -1)


atleast_1d = at_least("atleast_1d", to_1d, "Tensors with at least one dimension.")
atleast_2d = at_least("atleast_2d", to_2d, "Tensors with at least two dimensions; new ones come first.")
atleast_3d = at_least(
    "atleast_3d", to_3d, "Tensors with at least three dimensions, a matrix becoming (n, m, 1)."
)


# NumPy's names ---------------------------------------------------------------------------------------------


def stacking(
    name: str, grow: Callable, dim_of: Callable[[Tensor], int], words: str, aliases: tuple[str, ...] = ()
) -> Callable:
    """The family of hstack: grow every tensor, then cat along a fixed dimension."""

    def stacked(tensors: Sequence[Tensor]) -> Tensor:
        grown = [grow(tensor) for tensor in tensor_list(name, tensors)]
        return cat(grown, dim_of(grown[0]))

    def samples() -> Iterator[Sample]:
        yield Sample([real(3), real(3, seed=1)])
        yield Sample([real(), real(seed=1)])
        yield Sample([real(2, 3), real(2, 3, seed=1)])
        yield Sample([real(2, 3, 2), real(2, 3, 2, seed=1)])
        yield Fails(RuntimeError, [])
        yield Fails(RuntimeError, [real(2, 3), real(3, 2)])

    stacked.__name__ = stacked.__qualname__ = name
    stacked.__doc__ = words
    return composite(samples, out=True, aliases=aliases)(stacked)


def to_column(x: Tensor) -> Tensor:
    return x if x._form.ndim > 1 else reshape(x, (x._form.size, 1))


hstack = stacking(
    "hstack", to_1d, lambda x: min(x._form.ndim - 1, 1), "Joins columns: dimension 1, or 0 of vectors."
)
vstack = stacking("vstack", to_2d, lambda x: 0, "Joins rows: dimension 0.", aliases=("row_stack",))
dstack = stacking("dstack", to_3d, lambda x: 2, "Joins in depth: dimension 2.")
column_stack = stacking(
    "column_stack", to_column, lambda x: 1, "Joins columns; vectors become columns first."
)


# Blocks ----------------------------------------------------------------------------------------------------


def block_sizes(shape: tuple[int, ...]) -> tuple[int, int]:
    """A block's rows and columns: numbers and vectors are one row."""
    return shape if len(shape) == 2 else (1, count(shape))


def block_places(shapes: tuple) -> Iterator[tuple[slice, slice]]:
    """Where each block lies, from the upper left to the lower right."""
    row = column = 0
    for shape in shapes:
        height, width = block_sizes(shape)
        yield slice(row, row + height), slice(column, column + width)
        row, column = row + height, column + width


def block_spec(*xs: Tensor, shapes: tuple) -> Spec:
    sizes = [block_sizes(shape) for shape in shapes]
    return Spec((sum(h for h, _ in sizes), sum(w for _, w in sizes)), common_dtype(xs))


def run_block_diag(*xs: np.ndarray, shapes: tuple) -> np.ndarray:
    sizes = [block_sizes(shape) for shape in shapes]
    result = np.zeros((sum(h for h, _ in sizes), sum(w for _, w in sizes)), common_dtype(xs).numpy)
    for x, place in zip(xs, block_places(shapes), strict=True):
        result[place] = x
    return result


def block_vjp(g: Tensor, *, shapes: tuple) -> list[Tensor]:
    return [g[place].reshape(shape) for shape, place in zip(shapes, block_places(shapes), strict=True)]


def block_parts(*xs: Tensor, shapes: tuple) -> Tensor:
    """Rows of zeros, a block, and zeros."""
    width = sum(block_sizes(shape)[1] for shape in shapes)
    rows = []
    for x, (_, columns) in zip(xs, block_places(shapes), strict=True):
        block, zero = x.reshape(block_sizes(x._form.shape)), x.new_zeros(())
        height = block._form.shape[0]
        left, right = (zero.expand(height, n) for n in (columns.start, width - columns.stop))
        rows.append(cat([left, block, right], 1))
    return cat(rows)


block_op = fused(
    "block_diag",
    block_parts,
    spec=block_spec,
    run=run_block_diag,
    vjp=block_vjp,
    samples=lambda: iter(
        [
            Sample(real(2, 3), real(1, 2, seed=1)),
            Sample(real(), real(3), real(2, 2)),
            Sample(real(0, 2), real(1, 1)),
            Fails(RuntimeError, real(1, 2, 3)),
        ]
    ),
    rounds=False,
)


@face(block_op)
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given blocks on its diagonal and zeros elsewhere."""
    if not tensors:
        return wrap(np.empty((1, 0), get_default_dtype().numpy))
    operands = tensor_list("block_diag", tensors)
    for position, operand in enumerate(operands):
        if operand._form.ndim > 2:
            rule = f"input tensors must have 2 or fewer dimensions; input {position} has {operand._form.ndim}"
            raise error(RuntimeError, "block_diag", rule)
    return block_op(*operands, shapes=tuple(operand._form.shape for operand in operands))
