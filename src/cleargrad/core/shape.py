"""Shape arithmetic shared by every op, and `Spec`: what is known of a result before it exists.

Read next: core/mode.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cleargrad.core.dtype import dtype
from cleargrad.errors import error


class Spec(NamedTuple):
    """The shape and dtype of a tensor that need not exist yet."""

    shape: tuple[int, ...]
    dtype: dtype


class Size(tuple):
    """A shape; prints as PyTorch's torch.Size."""

    __slots__ = ()

    def numel(self) -> int:
        return count(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __add__(self, other):
        return Size(tuple.__add__(self, tuple(other)))

    def __getitem__(self, index):
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item


def count(shape: Iterable[int]) -> int:
    """The number of elements of a shape."""
    total = 1
    for extent in shape:
        total *= extent
    return total


def broadcast(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of operands, or PyTorch's error when there is none."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return tuple(shapes[0])
    rank = max(map(len, shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, start=rank - len(shape)):
            if extent == 1 or extent == result[axis]:
                continue
            if result[axis] != 1:
                facts = {f"operand {k}": str(tuple(s)) for k, s in enumerate(shapes)}
                rule = (
                    f"the operands' sizes must match or be 1 in every dimension, counted from the last; "
                    f"dimension {axis} has {result[axis]} and {extent}"
                )
                raise error(RuntimeError, op, rule, **facts)
            result[axis] = extent
    return tuple(result)


def wrap_dim(op: str, dim: int, rank: int) -> int:
    """A dimension counted from the front; 0-d tensors are taken as 1-d, as PyTorch does."""
    limit = rank or 1
    if not isinstance(dim, int):
        dim = as_index(op, dim)
    if not -limit <= dim < limit:
        rule = f"dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})"
        raise error(IndexError, op, rule)
    return dim + limit if dim < 0 else dim


def as_index(op: str, number: object) -> int:
    """Anything Python takes as an index; a TypeError for the rest."""
    try:
        return number.__index__()
    except AttributeError:
        raise error(TypeError, op, f"expected an int, got {type(number).__name__}: {number!r}") from None


def wrap_dims(op: str, dims: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Dimensions as a tuple counted from the front; None means all of them."""
    if dims is None:
        return tuple(range(rank))
    given = dims if isinstance(dims, (tuple, list)) else (dims,)
    wrapped = tuple(wrap_dim(op, dim, rank) for dim in given)
    if len(set(wrapped)) != len(wrapped):
        raise error(RuntimeError, op, f"a dimension appears more than once in {tuple(given)}")
    return wrapped if rank else ()


def reduced(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """The shape that is left after reducing `dims`."""
    if keepdim:
        return tuple(1 if axis in dims else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in dims)


def sizes_of(args: tuple) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence: `f(2, 3)` and `f((2, 3))` mean the same."""
    if len(args) == 1 and not hasattr(args[0], "__index__"):
        args = tuple(args[0])
    return tuple(size if type(size) is int else as_index("size", size) for size in args)


def infer_size(op: str, shape: tuple[int, ...], total: int) -> tuple[int, ...]:
    """Fills in the one size that may be -1."""
    if -1 not in shape:
        if count(shape) != total or any(extent < 0 for extent in shape):
            rule = f"shape '{list(shape)}' is invalid for input of size {total}"
            raise error(RuntimeError, op, rule)
        return shape
    known = count(extent for extent in shape if extent != -1)
    if shape.count(-1) > 1:
        raise error(RuntimeError, op, "only one dimension can be inferred")
    if known == 0 or total % known:
        if known == 0 and total == 0:
            rule = f"cannot reshape tensor of 0 elements into shape {list(shape)}: -1 could be anything"
        else:
            rule = f"shape '{list(shape)}' is invalid for input of size {total}"
        raise error(RuntimeError, op, rule)
    return tuple(total // known if extent == -1 else extent for extent in shape)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [0] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
