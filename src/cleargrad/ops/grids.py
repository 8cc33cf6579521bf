"""Grids and selections: all coordinates, all pairs, all combinations of vectors' elements.

Read next: ops/functional_views.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import combinations as pick
from itertools import combinations_with_replacement as pick_again
from typing import Any

import numpy as np

from cleargrad.core.dtype import int64
from cleargrad.core.tensor import Tensor, wrap_beside
from cleargrad.errors import error
from cleargrad.ops.declare import composite
from cleargrad.ops.joining import stack
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor


def meshgrid_samples() -> Iterator[Sample]:
    yield Sample(real(2), real(3, seed=1), indexing="ij")
    yield Sample(real(2), real(3, seed=1), real(1), indexing="xy")
    yield Sample([real(2), real()], indexing="ij")
    yield Fails(RuntimeError, real(2), real(2, 2), indexing="ij")
    yield Fails(RuntimeError, real(2), whole(2), indexing="ij")
    yield Fails(RuntimeError, real(2), indexing="up")
    yield Fails(RuntimeError, indexing="ij")


@composite(meshgrid_samples)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of a grid: tensor k varies along dimension k; "xy" swaps the first two dimensions."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    check_grid(tensors)
    if indexing is None:
        words = "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument."
        warnings.warn(words, UserWarning, stacklevel=2)
    elif indexing not in ("ij", "xy"):
        rule = f'indexing must be one of "xy" or "ij", but received: {indexing}'
        raise error(RuntimeError, "meshgrid", rule)
    lines = [tensor.reshape(-1) for tensor in tensors]
    swapped = indexing == "xy" and len(lines) > 1
    if swapped:
        lines[:2] = lines[1::-1]
    shape = tuple(line._form.size for line in lines)
    grids = [
        line.reshape(*[1] * axis, -1, *[1] * (len(lines) - axis - 1)).expand(shape)
        for axis, line in enumerate(lines)
    ]
    if swapped:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def check_grid(tensors: tuple) -> None:
    if not tensors:
        raise error(RuntimeError, "meshgrid", "expects a non-empty list of tensors")
    for tensor in tensors:
        check_tensor("meshgrid", tensor, "tensors")
        if tensor._form.ndim > 1:
            raise error(RuntimeError, "meshgrid", "expected 0-d or 1-d tensors", tensor=tensor)
        if tensor._form.dtype != tensors[0]._form.dtype:
            raise error(RuntimeError, "meshgrid", "expects all tensors to have the same dtype", tensor=tensor)


def check_vector(op: str, input: Any) -> None:
    check_tensor(op, input)
    if input._form.ndim != 1:
        raise error(RuntimeError, op, "expects a 1-d vector", input=input)


@composite(lambda: iter([Sample(real(2), real(3, seed=1)), Sample(real(2)), Fails(RuntimeError, real(2, 2))]))
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All ways to take one element of each vector, one way per row."""
    for tensor in tensors:
        check_vector("cartesian_prod", tensor)
    if len(tensors) == 1:
        return tensors[0]
    return stack([grid.flatten() for grid in meshgrid(*tensors, indexing="ij")], 1)


def combinations_samples() -> Iterator[Sample]:
    yield Sample(real(4))
    yield Sample(real(4), 3)
    yield Sample(real(3), 2, True)
    yield Sample(real(3), 5)
    yield Sample(real(3), 0)
    yield Fails(RuntimeError, real(3), -1)
    yield Fails(RuntimeError, real(2, 2))


@composite(combinations_samples)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to take r elements in the vector's order, one way per row."""
    check_vector("combinations", input)
    if r < 0:
        raise error(RuntimeError, "combinations", f"expects a non-negative number, got {r}")
    if r == 0:
        return input.new_empty(0)
    rows = (pick_again if with_replacement else pick)(range(input._form.size), r)
    places = np.array(list(rows), int64.numpy).reshape(-1, r)
    return stack([input[wrap_beside(column, input)] for column in places.T.copy()], 1)
