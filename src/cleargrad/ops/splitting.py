"""Splitting: one tensor into several views along a dimension.

The pieces share the tensor's memory; PyTorch lets nobody write through several pieces of one call while
gradients are recorded, except those of tensor_split, which are single slices. Read next: ops/conversion.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from cleargrad.core.dtype import int64
from cleargrad.core.shape import Spec, as_index, wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, fused, view
from cleargrad.ops.joining import cat, stack
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor, index_slice


def as_list(g: Any) -> list[Tensor]:
    """The gradients of the pieces; a node with one output gets its gradient bare."""
    return [g] if isinstance(g, Tensor) else g


def along(dim: int, part: Any) -> tuple:
    """The index that takes `part` of a dimension."""
    return (*[slice(None)] * dim, part, ...)


# Pieces of given sizes -------------------------------------------------------------------------------------


def run_split(x: np.ndarray, *, sizes: tuple[int, ...], dim: int) -> list[np.ndarray]:
    starts = accumulate(sizes, initial=0)
    return [x[along(dim, slice(start, start + size))] for start, size in zip(starts, sizes, strict=False)]


def split_spec(x: Tensor, *, sizes: tuple[int, ...], dim: int) -> list[Spec]:
    return [Spec(piece.shape, x.dtype) for piece in run_split(x._form, sizes=sizes, dim=dim)]


def split_vjp(g: Any, *, dim: int) -> Tensor:
    return cat(as_list(g), dim)


def split_samples() -> Iterator[Sample]:
    yield Sample(real(5, 2), 2)
    yield Sample(real(2, 4), 4, 1)
    yield Sample(real(0, 2), 0)
    yield Fails(RuntimeError, real(4), 0)
    yield Fails(RuntimeError, real(4), -1)
    yield Fails(RuntimeError, real(), 1)
    yield Fails(IndexError, real(4), 1, 1)


def sizes_samples() -> Iterator[Sample]:
    yield Sample(real(5, 2), [1, 4])
    yield Sample(real(2, 4), (1, 0, 3), 1)
    yield Fails(RuntimeError, real(4), [1, 2])
    yield Fails(RuntimeError, real(4), [5, -1])


split_even = view("split", run_split, vjp=split_vjp, samples=split_samples)
split_sized = view("split_with_sizes", run_split, vjp=split_vjp, samples=sizes_samples)
# The unsafe forms promise that pieces and whole are never both written, so that they need not be views.
unsafe_even, unsafe_sized = (
    fused(name, safe, spec=split_spec, run=run_split, vjp=split_vjp, samples=samples, rounds=False)
    for name, safe, samples in (
        ("unsafe_split", split_even, split_samples),
        ("unsafe_split_with_sizes", split_sized, sizes_samples),
    )
)


def extent_along(op: str, input: Tensor, dim: int) -> tuple[int, int]:
    """The dimension counted from the front, and its size."""
    check_tensor(op, input)
    shape = input._form.shape
    if not shape:
        raise error(RuntimeError, op, "expects at least a 1-dimensional tensor")
    dim = wrap_dim(op, dim, len(shape))
    return dim, shape[dim]


def even_sizes(op: str, total: int, size: int) -> tuple[int, ...]:
    if size < 0 or (size == 0 and total):
        rule = f"the size of a piece must be positive (0 only for a dimension of size 0), got {size}"
        raise error(RuntimeError, op, rule)
    if not total:
        return (0,)
    return tuple(min(size, total - start) for start in range(0, total, size))


def split_evenly(door: Callable, input: Tensor, size: Any, dim: int) -> tuple[Tensor, ...]:
    op = door.__name__
    dim, total = extent_along(op, input, dim)
    return door(input, sizes=even_sizes(op, total, as_index(op, size)), dim=dim)


def split_by_sizes(door: Callable, input: Tensor, sizes: Sequence[int], dim: int) -> tuple[Tensor, ...]:
    op = door.__name__
    dim, total = extent_along(op, input, dim)
    sizes = tuple(as_index(op, size) for size in sizes)
    if sum(sizes) != total or any(size < 0 for size in sizes):
        rule = f"expects non-negative split_sizes that sum exactly to {total}, the size of dimension {dim}"
        raise error(RuntimeError, op, rule, split_sizes=sizes)
    return door(input, sizes=sizes, dim=dim) if sizes else ()


@face(split_even, method=True)
def split(
    tensor: Tensor,
    split_size_or_sections: int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    split_size: Any = None,
) -> tuple[Tensor, ...]:
    """Pieces of one size, the last one possibly smaller, or of the sizes of a list."""
    sections = split_size if split_size_or_sections is None else split_size_or_sections
    if isinstance(sections, (list, tuple)):
        return split_by_sizes(split_sized, tensor, sections, dim)
    return split_evenly(split_even, tensor, sections, dim)


@face(split_sized, method=True)
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of the given sizes."""
    return split_by_sizes(split_sized, input, split_sizes, dim)


@face(unsafe_even, method=True)
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split` without the rules for writing to views."""
    return split_evenly(unsafe_even, input, split_size, dim)


@face(unsafe_sized, method=True)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes` without the rules for writing to views."""
    return split_by_sizes(unsafe_sized, input, split_sizes, dim)


def chunk_samples() -> Iterator[Sample]:
    yield Sample(real(5, 2), 2)
    yield Sample(real(2, 3), 7, -1)
    yield Sample(real(0, 2), 3)
    yield Fails(RuntimeError, real(4), 0)
    yield Fails(RuntimeError, real(), 1)


def chunked(
    op: str, even: Callable, sized: Callable, input: Tensor, chunks: int, dim: int
) -> tuple[Tensor, ...]:
    dim, total = extent_along(op, input, dim)
    if chunks <= 0:
        raise error(RuntimeError, op, f"expects `chunks` to be greater than 0, got {chunks}")
    if not total:
        return sized(input, sizes=(0,) * chunks, dim=dim)
    return even(input, sizes=even_sizes(op, total, -(-total // chunks)), dim=dim)


@composite(chunk_samples, method=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of one size, the last one possibly smaller."""
    return chunked("chunk", split_even, split_sized, input, chunks, dim)


@composite(chunk_samples, method=True)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk` without the rules for writing to views."""
    return chunked("unsafe_chunk", unsafe_even, unsafe_sized, input, chunks, dim)


# One piece per index ---------------------------------------------------------------------------------------


def unbind_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3, 4), -1)
    yield Sample(real(1))
    yield Fails(IndexError, real(3, 4), 2)
    yield Fails(IndexError, real())


unbind_along = view(
    "unbind",
    lambda x, *, dim: [x[along(dim, place)] for place in range(x.shape[dim])],
    vjp=lambda g, *, dim: stack(as_list(g), dim),
    samples=unbind_samples,
)


@face(unbind_along, method=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts at every index of a dimension, which goes away."""
    check_tensor("unbind", input)
    shape = input._form.shape
    if not shape:
        raise error(IndexError, "unbind", f"dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim("unbind", dim, len(shape))
    return unbind_along(input, dim=dim) if shape[dim] else ()


# Slices at given places ------------------------------------------------------------------------------------


def tensor_split_samples() -> Iterator[Sample]:
    yield Sample(real(5, 2), 3)
    yield Sample(real(2, 5), (1, 4), 1)
    yield Sample(real(5), (3, 2, 9))
    yield Fails(RuntimeError, real(4), 0)
    yield Fails(RuntimeError, real(), 2)


@composite(tensor_split_samples, method=True)
def tensor_split(
    input: Tensor,
    indices_or_sections: int | Sequence[int] | Tensor | None = None,
    dim: int = 0,
    *,
    sections: int | None = None,
    indices: Sequence[int] | None = None,
    tensor_indices_or_sections: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Slices between indices, or a number of slices whose sizes differ by at most one."""
    given = (indices_or_sections, sections, indices, tensor_indices_or_sections)
    where = next((argument for argument in given if argument is not None), None)
    dim, total = extent_along("tensor_split", input, dim)
    if isinstance(where, Tensor):
        where = places_of(where)
    if isinstance(where, (list, tuple)):
        ends = [as_index("tensor_split", place) for place in where]
    else:
        ends = section_ends(as_index("tensor_split", where), total)
    edges = [0, *ends, total]
    return tuple(
        index_slice(input, index=along(dim, slice(*slice(start, stop).indices(total))))
        for start, stop in pairwise(edges)
    )


def places_of(where: Tensor) -> int | list[int]:
    if where.dtype is not int64 or where._form.ndim > 1:
        rule = "a tensor of indices or sections must be 0-d or 1-d and of dtype long"
        raise error(RuntimeError, "tensor_split", rule, tensor=where)
    return where.tolist()


def section_ends(sections: int, total: int) -> list[int]:
    """Where all sections but the last end; the first `total % sections` are one longer."""
    if sections <= 0:
        raise error(RuntimeError, "tensor_split", f"number of sections must be larger than 0, got {sections}")
    size, longer = divmod(total, sections)
    return [size * k + min(k, longer) for k in range(1, sections)]


def split_at(name: str, least: int, dim_of: Callable[[int], int], words: str) -> Callable:
    """The family of hsplit: tensor_split along a fixed dimension, and only into equal sections."""

    def split_here(
        input: Tensor,
        indices_or_sections: int | Sequence[int] | None = None,
        *,
        sections: Any = None,
        indices: Any = None,
    ) -> tuple[Tensor, ...]:
        given = (indices_or_sections, sections, indices)
        where = next((argument for argument in given if argument is not None), None)
        check_tensor(name, input)
        rank = input._form.ndim
        if rank < least:
            rule = (
                f"requires a tensor with at least {least} dimension, but got a tensor with {rank} dimensions"
            )
            raise error(RuntimeError, name, rule)
        dim = dim_of(rank)
        extent = input._form.shape[dim]
        if isinstance(where, int) and (where <= 0 or extent % where):
            rule = f"the size {extent} of dimension {dim} is not divisible by the number of sections {where}"
            raise error(RuntimeError, name, rule)
        return tensor_split(input, where, dim)

    def samples() -> Iterator[Sample]:
        yield Sample(real(2, 4, 2), 2)
        yield Sample(real(2, 4, 2), (1,))
        yield Fails(RuntimeError, real(2, 4, 2), 3)
        yield Fails(RuntimeError, real(), 1)

    split_here.__name__ = split_here.__qualname__ = name
    split_here.__doc__ = words
    return composite(samples, method=True)(split_here)


hsplit = split_at(
    "hsplit", 1, lambda rank: 1 if rank > 1 else 0, "Splits columns: dimension 1, or 0 of a vector."
)
vsplit = split_at("vsplit", 2, lambda rank: 0, "Splits rows: dimension 0.")
dsplit = split_at("dsplit", 3, lambda rank: 2, "Splits in depth: dimension 2.")
