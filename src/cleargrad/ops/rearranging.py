"""Rearranging: flips, rotations, repetitions, triangles and diagonals, all with memory of their own.

Read next: ops/grids.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec, sizes_of, wrap_dim, wrap_dims
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.conversion import contiguous_format
from cleargrad.ops.declare import composite, face, fused, opaque
from cleargrad.ops.joining import cat
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.padding import constant_pad_nd
from cleargrad.ops.ranges import arange
from cleargrad.ops.record import data_dependent
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# Flips and rotations ---------------------------------------------------------------------------------------


def flip_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), (0,))
    yield Sample(real(3, 4), (0, -1))
    yield Sample(real(3, 4), ())
    yield Sample(real(), (0,))
    yield Fails(RuntimeError, real(3, 4), (0, 0))
    yield Fails(IndexError, real(3, 4), (2,))


def flip_parts(x: Tensor, *, dims: tuple[int, ...]) -> Tensor:
    for dim in dims if x._form.ndim else ():
        x = x.index_select(dim, arange(x._form.shape[dim] - 1, -1, -1, device=x.device))
    return x


reverse = fused(
    "flip",
    flip_parts,
    spec=lambda x, *, dims: Spec(x._form.shape, x.dtype),
    run=lambda x, *, dims: np.flip(x, dims).copy(),
    vjp=lambda g, *, dims: reverse(g, dims=dims),
    samples=flip_samples,
    spec_first=False,
    rounds=False,
)


@face(reverse, method=True)
def flip(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """The elements in reverse order along dimensions."""
    check_tensor("flip", input)
    if not order and dims is None:
        raise error(TypeError, "flip", "missing the argument 'dims'")
    wanted = sizes_of(order if dims is None else (dims,))
    return reverse(input, dims=wrap_dims("flip", wanted, input._form.ndim))


@composite(lambda: iter([Sample(real(2, 3)), Fails(RuntimeError, real(3))]), method=True)
def fliplr(input: Tensor) -> Tensor:
    """The columns in reverse order."""
    check_tensor("fliplr", input)
    if input._form.ndim < 2:
        raise error(RuntimeError, "fliplr", "input must be at least 2-d", input=input)
    return flip(input, 1)


@composite(lambda: iter([Sample(real(2, 3)), Sample(real(3)), Fails(RuntimeError, real())]), method=True)
def flipud(input: Tensor) -> Tensor:
    """The rows in reverse order."""
    check_tensor("flipud", input)
    if input._form.ndim < 1:
        raise error(RuntimeError, "flipud", "input must be at least 1-d", input=input)
    return flip(input, 0)


def roll_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), 1)
    yield Sample(real(3, 4), -2, 1)
    yield Sample(real(3, 4), (1, 5), (0, 1))
    yield Sample(real(3), (1, 1), (0, 0))
    yield Sample(real(), 3)
    yield Fails(RuntimeError, real(3, 4), (1, 2), (0,))
    yield Fails(RuntimeError, real(3, 4), (1, 2))
    yield Fails(IndexError, real(3, 4), 1, 2)


def roll_parts(x: Tensor, *, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
    if not x._form.size:
        return x
    if not dims:
        return roll_parts(x.reshape(-1), shifts=shifts, dims=(0,)).reshape(x._form.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        extent = x._form.shape[dim]
        cut = -shift % extent
        x = cat([x.narrow(dim, cut, extent - cut), x.narrow(dim, 0, cut)], dim)
    return x


rotate = fused(
    "roll",
    roll_parts,
    spec=lambda x, *, shifts, dims: Spec(x._form.shape, x.dtype),
    run=lambda x, *, shifts, dims: np.roll(np.asarray(x, order="C"), shifts, dims or None),
    vjp=lambda g, *, shifts, dims: rotate(g, shifts=tuple(-shift for shift in shifts), dims=dims),
    samples=roll_samples,
    spec_first=False,
    rounds=False,
)


@face(rotate, method=True)
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Moves the elements along dimensions; what falls off the end comes in at the front."""
    check_tensor("roll", input)
    steps = sizes_of((shifts,))
    places = () if dims is None else sizes_of((dims,))
    if not steps:
        raise error(RuntimeError, "roll", "`shifts` required")
    if not places and len(steps) == 1:
        return rotate(input, shifts=steps, dims=())  # all elements in one line
    if len(steps) != len(places):
        rule = f"shifts and dimensions must align: {len(steps)} shifts and {len(places)} dims"
        raise error(RuntimeError, "roll", rule)
    if not input._form.ndim:
        raise error(IndexError, "roll", f"dimension specified as {places[0]} but tensor has no dimensions")
    places = tuple(wrap_dim("roll", dim, input._form.ndim) for dim in places)
    return rotate(input, shifts=steps, dims=places)


def rot90_samples() -> Iterator[Sample]:
    for k in range(-1, 5):
        yield Sample(real(2, 3), k)
    yield Sample(real(2, 3, 4), 1, (2, 0))
    yield Fails(RuntimeError, real(3))
    yield Fails(RuntimeError, real(3, 3), 1, (0, 0))
    yield Fails(RuntimeError, real(3, 3), 1, (0,))


def rot90_parts(x: Tensor, *, k: int, dims: tuple[int, int]) -> Tensor:
    turns = k % 4
    if turns == 2:
        return reverse(x, dims=dims)
    if turns == 1:
        return reverse(x, dims=dims[1:]).transpose(*dims)
    return reverse(x.transpose(*dims), dims=dims[1:]) if turns else x


turn_plane = fused(
    "rot90",
    rot90_parts,
    spec=lambda x, *, k, dims: Spec(np.rot90(x._form, k, dims).shape, x.dtype),
    run=lambda x, *, k, dims: np.rot90(x, k, dims).copy(),
    vjp=lambda g, *, k, dims: turn_plane(g, k=-k, dims=dims),
    samples=rot90_samples,
    node="Rot90Backward0",
    spec_first=False,
    rounds=False,
)


@face(turn_plane, method=True)
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turns the plane of two dimensions by k quarter turns, from the first towards the second."""
    check_tensor("rot90", input)
    rank = input._form.ndim
    if len(dims) != 2 or rank < 2:
        rule = f"expected two rotation dims and a tensor of at least 2 dims, got {len(dims)} and {rank}"
        raise error(RuntimeError, "rot90", rule)
    first, second = (wrap_dim("rot90", dim, rank) for dim in dims)
    if first == second:
        raise error(RuntimeError, "rot90", f"expected rotation dims to be different, got {tuple(dims)}")
    return turn_plane(input, k=k, dims=(first, second))


# Repetitions -----------------------------------------------------------------------------------------------


def repeat_vjp(g: Tensor, *, x_shape: tuple, repeats: tuple) -> Tensor:
    """Splits every dimension into (repeats, size) and sums over the repeats."""
    lead = len(repeats) - len(x_shape)
    full = (1,) * lead + tuple(x_shape)
    pairs = [extent for pair in zip(repeats, full, strict=True) for extent in pair]
    return g.reshape(pairs).sum(tuple(range(0, len(pairs), 2))).reshape(x_shape) if pairs else g


def repeated_shape(shape: tuple[int, ...], repeats: tuple[int, ...]) -> tuple[int, ...]:
    full = (1,) * (len(repeats) - len(shape)) + shape
    return tuple(extent * times for extent, times in zip(full, repeats, strict=True))


def repeat_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), (2, 2))
    yield Sample(real(3), (2, 1, 2))
    yield Sample(real(), ())
    yield Sample(real(2, 3), (0, 1))
    yield Fails(RuntimeError, real(2, 3), (2,))
    yield Fails(RuntimeError, real(2, 3), (2, -1))


def repeat_parts(x: Tensor, *, repeats: tuple[int, ...]) -> Tensor:
    """Puts a dimension of size `repeats` before each one, and joins the two."""
    shape = (1,) * (len(repeats) - x._form.ndim) + x._form.shape
    thin = [extent for n in shape for extent in (1, n)]
    wide = [extent for pair in zip(repeats, shape, strict=True) for extent in pair]
    return x.reshape(thin).expand(wide).reshape(repeated_shape(x._form.shape, repeats))


repeat_whole = fused(
    "repeat",
    repeat_parts,
    spec=lambda x, *, repeats: Spec(repeated_shape(x._form.shape, repeats), x.dtype),
    run=lambda x, *, repeats: np.tile(x, repeats),
    vjp=repeat_vjp,
    samples=repeat_samples,
    spec_first=False,
    rounds=False,
)


@face(repeat_whole, method=True, spaces=(), reference=lambda torch: torch.Tensor.repeat)
def repeat(input: Tensor, *times: Any, repeats: Any = None) -> Tensor:
    """The whole tensor again and again along its dimensions; new dimensions come first."""
    check_tensor("repeat", input)
    counts = sizes_of(times if repeats is None else (repeats,))
    if not times and repeats is None:
        raise error(TypeError, "repeat", "missing the argument 'repeats'")
    if len(counts) < input._form.ndim:
        rule = "the number of repeats can not be smaller than the number of dimensions of the tensor"
        raise error(RuntimeError, "repeat", rule, input=input, repeats=counts)
    if any(number < 0 for number in counts):
        raise error(RuntimeError, "repeat", "trying to create tensor with negative dimension", repeats=counts)
    return repeat_whole(input, repeats=counts)


def tile_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), (2,))
    yield Sample(real(2, 3), (2, 1, 2))
    yield Sample(real(2), ())
    yield Fails(RuntimeError, real(2), (-1,))


@composite(tile_samples, method=True)
def tile(input: Tensor, *times: Any, dims: Any = None) -> Tensor:
    """`repeat`, with missing counts taken as 1."""
    check_tensor("tile", input)
    counts = sizes_of(times if dims is None else (dims,))
    return repeat(input, (1,) * (input._form.ndim - len(counts)) + counts)


def run_spread(repeats: np.ndarray, *, total: int | None) -> np.ndarray:
    if (repeats < 0).any():
        raise error(RuntimeError, "repeat_interleave", "repeats can not be negative")
    result = np.repeat(np.arange(repeats.size), repeats).astype(repeats.dtype)
    if total is not None and total != result.size:
        rule = f"output_size is {total}, but the repeats sum to {result.size}"
        raise error(RuntimeError, "repeat_interleave", rule)
    return result


spread_places = opaque(
    "repeat_interleave_places",
    spec=data_dependent("repeat_interleave"),
    run=run_spread,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(whole(4), total=None)]),
)


def repeat_interleave_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3), 2)
    yield Sample(real(2, 3), 2, 0)
    yield Sample(real(2, 3), 3, -1)
    yield Sample(real(), 3)
    yield Sample(real(3, 2), np.array([1, 0, 2]), 0)
    yield Sample(np.array([1, 2, 0]))
    yield Fails(RuntimeError, real(3), -1)
    yield Fails(RuntimeError, real(3, 2), np.array([1, 2]), 0)
    yield Fails(IndexError, real(3), 2, 1)


@composite(repeat_interleave_samples, method=True)
def repeat_interleave(
    input: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Every element again and again along a dimension, all repetitions next to each other."""
    check_tensor("repeat_interleave", input)
    if repeats is None:
        return places_of(input, output_size)
    if dim is None:
        input, dim = input.flatten(), 0
    dim = wrap_dim("repeat_interleave", dim, input._form.ndim)
    if isinstance(repeats, Tensor) and repeats._form.size == 1 and input._form.ndim:
        repeats = repeats.reshape(1).expand(input._form.shape[dim])
    if isinstance(repeats, Tensor):
        return input.index_select(dim, places_for(input, repeats, dim, output_size))
    if repeats < 0:
        raise error(RuntimeError, "repeat_interleave", "repeats must be non-negative")
    shape = input._form.shape
    spread = input.unsqueeze(dim + 1).expand(*shape[: dim + 1], repeats, *shape[dim + 1 :])
    return spread.clone(memory_format=contiguous_format).flatten(dim, dim + 1)


def places_of(repeats: Tensor, output_size: int | None) -> Tensor:
    if repeats._form.ndim != 1:
        raise error(RuntimeError, "repeat_interleave", "repeats must be a 1-d tensor", repeats=repeats)
    if repeats._form.dtype not in (np.int32, np.int64):
        raise error(NotImplementedError, "repeat_interleave", "repeats must be int or long", repeats=repeats)
    return spread_places(repeats, total=output_size)


def places_for(input: Tensor, repeats: Tensor, dim: int, output_size: int | None) -> Tensor:
    places = places_of(repeats, output_size)
    extent = input._form.shape[dim] if input._form.ndim else 1
    if repeats._form.size != extent:
        rule = f"repeats must have the same size as input along dim, got {repeats._form.size} and {extent}"
        raise error(RuntimeError, "repeat_interleave", rule)
    return places


# Triangles and diagonals -----------------------------------------------------------------------------------


def diagonals(x: Tensor) -> Tensor:
    """The number of the diagonal that each place of the last two dimensions lies on: column − row."""
    rows, columns = x._form.shape[-2:]
    place = x.device
    return arange(columns, device=place) - arange(rows, device=place).unsqueeze(-1)


def triangle(name: str, cut: Callable, beyond: Callable, words: str) -> Callable:
    """tril and triu: zeros beyond a diagonal of the last two dimensions."""

    def samples() -> Iterator[Sample]:
        yield Sample(real(3, 4))
        yield Sample(real(4, 3), 1)
        yield Sample(real(2, 3, 3), diagonal=-1)
        yield Sample(real(0, 3))
        yield Fails(RuntimeError, real(3))

    door = fused(
        name,
        lambda x, *, diagonal: x.masked_fill(beyond(diagonals(x), diagonal), 0),
        spec=lambda x, *, diagonal: Spec(x._form.shape, x.dtype),
        run=lambda x, *, diagonal: np.ascontiguousarray(cut(x, diagonal)),
        vjp=lambda g, *, diagonal: door(g, diagonal=diagonal),
        samples=samples,
        spec_first=False,
        rounds=False,
    )

    def published(input: Tensor, diagonal: int = 0) -> Tensor:
        check_tensor(name, input)
        if input._form.ndim < 2:
            raise error(RuntimeError, name, "input tensor must have at least 2 dimensions", input=input)
        return door(input, diagonal=diagonal)

    published.__name__ = published.__qualname__ = name
    published.__doc__ = words
    return face(door, method=True, inplace=True, out=True)(published)


tril = triangle("tril", np.tril, operator.gt, "The lower triangle: zeros above the diagonal.")
triu = triangle("triu", np.triu, operator.lt, "The upper triangle: zeros below the diagonal.")


def embedded_shape(shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> tuple[int, ...]:
    result = list(shape[:-1])
    for dim in sorted((dim1, dim2)):
        result.insert(dim, shape[-1] + abs(offset))
    return tuple(result)


def run_diag_embed(x: np.ndarray, *, offset: int, dim1: int, dim2: int) -> np.ndarray:
    result = np.zeros(embedded_shape(x.shape, offset, dim1, dim2), x.dtype)
    line = result.diagonal(offset, dim1, dim2)
    line.flags.writeable = True
    line[...] = x
    return result


def diag_embed_samples() -> Iterator[Sample]:
    yield Sample(real(3))
    yield Sample(real(2, 3), 1)
    yield Sample(real(2, 3), offset=-1, dim1=0, dim2=2)
    yield Fails(RuntimeError, real(3), 0, 1, 1)
    yield Fails(IndexError, real(3), 0, 0, 2)


def diag_embed_parts(x: Tensor, *, offset: int, dim1: int, dim2: int) -> Tensor:
    """The vector as a column, or for a diagonal below the main one as a row, where it meets the diagonal."""
    extent = x._form.shape[-1] + abs(offset)
    line = constant_pad_nd(x, (0, abs(offset))).unsqueeze(-1 if offset >= 0 else -2)
    square = line.expand(*x._form.shape[:-1], extent, extent)
    return square.masked_fill(diagonals(square) != offset, 0).movedim((-2, -1), (dim1, dim2))


embed = fused(
    "diag_embed",
    diag_embed_parts,
    spec=lambda x, *, offset, dim1, dim2: Spec(embedded_shape(x._form.shape, offset, dim1, dim2), x.dtype),
    run=run_diag_embed,
    vjp=lambda g, *, offset, dim1, dim2: g.diagonal(offset, dim1, dim2),
    samples=diag_embed_samples,
    rounds=False,
)


@face(embed, method=True)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension on a diagonal and zeros elsewhere."""
    check_tensor("diag_embed", input)
    rank = input._form.ndim + 1
    if rank == 1:
        raise error(IndexError, "diag_embed", "a 0-d tensor has no dimension to put on a diagonal")
    first, second = wrap_dim("diag_embed", dim1, rank), wrap_dim("diag_embed", dim2, rank)
    if first == second:
        raise error(RuntimeError, "diag_embed", f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if first > second:
        first, second, offset = second, first, -offset
    return embed(input, offset=offset, dim1=first, dim2=second)


def diag_samples() -> Iterator[Sample]:
    yield Sample(real(3))
    yield Sample(real(3), -1)
    yield Sample(real(3, 4), 1)
    yield Fails(RuntimeError, real())
    yield Fails(RuntimeError, real(1, 2, 3))


@composite(diag_samples, method=True, out=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector."""
    check_tensor("diag", input)
    rank = input._form.ndim
    if rank not in (1, 2):
        raise error(RuntimeError, "diag", f"supports 1-d or 2-d tensors, got {rank}-d", input=input)
    return diag_embed(input, diagonal) if rank == 1 else input.diagonal(diagonal).clone()


@composite(lambda: iter([Sample(real(2, 2)), Sample(real(3), 1), Sample(real())]), method=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements on the diagonal of a matrix."""
    check_tensor("diagflat", input)
    return diag_embed(input.reshape(-1), offset)
