"""Views without sharing: the `_scatter` forms write into a copy, the `_copy` forms are views of a copy.

Read next: ops/reductions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec, wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops import dimensions, splitting, strides, views
from cleargrad.ops.conversion import contiguous_format
from cleargrad.ops.declare import composite, face, opaque
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor, index_select_one, index_slice

# Writing a part of a copy ----------------------------------------------------------------------------------


def scatter_into(name: str, part: Callable, part_of: Callable, samples: Callable) -> Callable:
    """An op (x, y, *, place): a copy of x in which the part at `place` is y.

    `part` takes the part of an array as a view, `part_of` takes that of a tensor.
    """

    def spec(x: Tensor, y: Tensor, *, place: Any) -> Spec:
        if part(x._form, place).shape != y._form.shape:
            want = str(part(x._form, place).shape)
            rule = "expected src to have a size equal to the slice of self"
            raise error(RuntimeError, name, rule, input=x, slice=want, src=y)
        return Spec(x._form.shape, x.dtype)

    def run(x: np.ndarray, y: np.ndarray, *, place: Any) -> np.ndarray:
        result = x.copy()
        part(result, place)[...] = y
        return result

    def vjp_of_whole(g: Tensor, *, place: Any) -> Tensor:
        covered = part_of(g, place)
        return door(g, covered.new_zeros(covered._form.shape), place=place)

    def vjp_of_part(g: Tensor, *, place: Any) -> Tensor:
        return part_of(g, place)

    door = opaque(name, spec=spec, run=run, vjp=(vjp_of_whole, vjp_of_part), samples=samples)
    return door


def part_by_index(x: np.ndarray, place: tuple) -> np.ndarray:
    return x[place]


def part_by_diagonal(x: np.ndarray, place: dict) -> np.ndarray:
    return strides.run_diagonal(x, **place)


def select_scatter_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(4, seed=1), 0, 1)
    yield Sample(real(3, 4), real(3, seed=1), -1, -2)
    yield Fails(RuntimeError, real(3, 4), real(3), 0, 1)
    yield Fails(IndexError, real(3, 4), real(4), 0, 3)


def slice_scatter_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, 4, seed=1))
    yield Sample(real(5, 2), real(2, 2, seed=1), 0, 1, 4, 2)
    yield Sample(real(2, 4), real(2, 2, seed=1), 1, start=-2)
    yield Fails(RuntimeError, real(3, 4), real(3, 4), 0, 0, 1)
    yield Fails(RuntimeError, real(3, 4), real(3, 4), 0, 0, 3, 0)


def diagonal_scatter_samples() -> Iterator[Sample]:
    yield Sample(real(3, 3), real(3, seed=1))
    yield Sample(real(2, 3, 4), real(3, 2, seed=1), offset=1, dim1=0, dim2=2)
    yield Fails(RuntimeError, real(3, 3), real(4))


put_selected = scatter_into(
    "select_scatter", part_by_index, lambda g, place: index_select_one(g, index=place), select_scatter_samples
)
put_slice = scatter_into(
    "slice_scatter", part_by_index, lambda g, place: index_slice(g, index=place), slice_scatter_samples
)
put_diagonal = scatter_into(
    "diagonal_scatter",
    part_by_diagonal,
    lambda g, place: strides.diagonal_of(g, **place),
    diagonal_scatter_samples,
)


@face(put_selected, method=True)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of the tensor in which `select(dim, index)` is `src`."""
    check_tensor("select_scatter", input)
    dim = wrap_dim("select_scatter", dim, input._form.ndim)
    extent = input._form.shape[dim] if input._form.ndim else 0
    if not -extent <= index < extent:
        raise error(
            IndexError, "select_scatter", f"index {index} is out of range for size {extent}", input=input
        )
    return put_selected(input, src, place=splitting.along(dim, index))


@face(put_slice, method=True)
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of the tensor in which `[start:end:step]` of a dimension is `src`."""
    check_tensor("slice_scatter", input)
    if step <= 0:
        raise error(RuntimeError, "slice_scatter", f"slice step must be positive, got {step}")
    dim = wrap_dim("slice_scatter", dim, input._form.ndim)
    return put_slice(input, src, place=splitting.along(dim, slice(start, end, step)))


@face(put_diagonal, method=True)
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of the tensor in which `diagonal(offset, dim1, dim2)` is `src`."""
    check_tensor("diagonal_scatter", input)
    place = strides.diagonal_place("diagonal_scatter", input._form.ndim, offset, dim1, dim2)
    return put_diagonal(input, src, place=place)


# Views of a copy -------------------------------------------------------------------------------------------


def copied(name: str, function: Callable, samples: Callable) -> Callable:
    """`name`: what a view function returns, with memory of its own."""

    def copy(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if isinstance(result, tuple):
            return tuple(part.clone(memory_format=contiguous_format) for part in result)
        return result.clone(memory_format=contiguous_format)

    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = f"`{function.__name__}`, copied."
    return composite(samples, out=True)(copy)


@composite(lambda: iter([Sample(real(3, 4), 1, 1, 3), Fails(RuntimeError, real(3), 0, 0, 2, 0)]))
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """`[start:end:step]` of a dimension, copied."""
    check_tensor("slice_copy", input)
    if step <= 0:
        raise error(RuntimeError, "slice_copy", f"slice step must be positive, got {step}")
    place = splitting.along(wrap_dim("slice_copy", dim, input._form.ndim), slice(start, end, step))
    return index_slice(input, index=place).clone(memory_format=contiguous_format)


for _name, _function, _samples in (
    ("view_copy", views.view_, views.reshape_samples),
    ("expand_copy", views.expand, views.expand_samples),
    ("select_copy", views.select, views.select_samples),
    ("narrow_copy", views.narrow, views.narrow_samples),
    ("squeeze_copy", views.squeeze, views.squeeze_samples),
    ("unsqueeze_copy", views.unsqueeze, views.unsqueeze_samples),
    ("alias_copy", views.alias, views.alias.op.samples),
    ("permute_copy", dimensions.permute, dimensions.permute_samples),
    ("transpose_copy", dimensions.transpose, dimensions.swap_dims.op.samples),
    ("t_copy", dimensions.t, dimensions.turn.op.samples),
    ("as_strided_copy", strides.as_strided, strides.strided_samples),
    ("diagonal_copy", strides.diagonal, strides.diagonal_samples),
    ("unfold_copy", strides.unfold, strides.unfold_samples),
    ("unbind_copy", splitting.unbind, splitting.unbind_samples),
    ("split_copy", splitting.split, splitting.split_samples),
    ("split_with_sizes_copy", splitting.split_with_sizes, splitting.sizes_samples),
):
    copied(_name, _function, _samples)
