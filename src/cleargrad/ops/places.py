"""Reading and writing places that index tensors name: `index` and `index_put`, and makers of their kin.

`dims` are the dimensions that index tensors stand in. NumPy's rule for the shape holds: neighbouring index
dimensions are replaced in place, scattered ones move to the front. Read next: ops/indexing.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec, broadcast, count
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.arrays.scatter import add_at
from cleargrad.errors import error
from cleargrad.ops.declare import fused, opaque
from cleargrad.ops.samples import Fails, Sample, real, truth, whole

# Kernels ---------------------------------------------------------------------------------------------------


def key_of(rank: int, indices: tuple[np.ndarray, ...], dims: tuple[int, ...]) -> tuple:
    key: list = [slice(None)] * rank
    for dim, places in zip(dims, indices, strict=True):
        key[dim] = places
    return tuple(key)


def index_shape(op: str, shape: tuple, indices: tuple, dims: tuple[int, ...]) -> tuple[int, ...]:
    try:
        joint = broadcast(op, *[places._form.shape for places in indices])
    except RuntimeError as failure:
        shapes = ", ".join(str(list(places._form.shape)) for places in indices)
        rule = f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        raise error(IndexError, op, rule) from failure
    if count(joint) and any(shape[dim] == 0 for dim in dims):
        raise error(
            IndexError, op, f"index is out of bounds for a dimension of size 0 in shape {list(shape)}"
        )
    rest = [extent for dim, extent in enumerate(shape) if dim not in dims]
    front = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    return (*rest[:front], *joint, *rest[front:])


def check_range(
    op: str,
    kind: type[Exception],
    x: np.ndarray,
    indices: tuple[np.ndarray, ...],
    dims: tuple[int, ...],
    negative: bool,
) -> None:
    """Refuses places outside their dimension; with `negative`, negative ones count from the end."""
    for dim, places in zip(dims, indices, strict=True):
        extent = x.shape[dim]
        if are_outside(places + extent if negative else places, 2 * extent if negative else extent):
            bad = places[(places >= extent) | (places < (-extent if negative else 0))].flat[0]
            raise error(kind, op, f"index {bad} is out of bounds for dimension {dim} with size {extent}")


def are_outside(places: np.ndarray, extent: int) -> bool:
    """Whether any place is not in [0, extent): read as unsigned, a negative number is too large as well."""
    return bool(places.size) and np.maximum.reduce(places.view(UNSIGNED[places.dtype]), axis=None) >= extent


UNSIGNED: dict[np.dtype, np.dtype] = {
    np.dtype(np.int64): np.dtype(np.uint64),
    np.dtype(np.int32): np.dtype(np.uint32),
}


def take_places(x: np.ndarray, indices: tuple[np.ndarray, ...], dims: tuple[int, ...]) -> np.ndarray:
    if len(dims) == 1 and x.flags.c_contiguous:
        return x.take(indices[0], axis=dims[0])
    return np.ascontiguousarray(x[key_of(x.ndim, indices, dims)])


def write_places(x: np.ndarray, values: np.ndarray, indices: tuple, dims: tuple, accumulate: bool) -> None:
    if accumulate:
        check_range("index_put_", IndexError, x, indices, dims, True)
        add_at(x, values, indices, dims)
        return
    try:
        x[key_of(x.ndim, indices, dims)] = values
    except IndexError:
        check_range("index_put_", IndexError, x, indices, dims, True)
        raise


# Ops -------------------------------------------------------------------------------------------------------


def gathering_op(
    name: str, samples: Callable, *, kind: type[Exception] = IndexError, negative: bool = True
) -> Callable:
    """An op `(x, *indices, dims)` that reads places; with `negative` they may count from the end.

    `kind` is raised for places outside.
    """

    def run(x: np.ndarray, *indices: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
        if not negative:
            check_range(name, kind, x, indices, dims, negative)
        try:
            return take_places(x, indices, dims)
        except IndexError:
            check_range(name, kind, x, indices, dims, negative)
            raise

    rules: dict[str, Any] = {
        "spec": lambda x, *indices, dims: Spec(index_shape(name, x._form.shape, indices, dims), x.dtype),
        "run": run,
        "vjp": (lambda g, *indices, x_shape, dims: sum_at(g, *indices, shape=x_shape, dims=dims),),
        "samples": samples,
        "spec_first": False,
    }
    return opaque(name, **rules) if name == "index" else fused(name, index_op, rounds=False, **rules)


def read_back(g: Tensor, *indices: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The gradient of written values: what arrives at their places."""
    return index_op(g, *indices, dims=dims)


def writing_op(
    name: str,
    samples: Callable,
    *,
    kind: type[Exception] = IndexError,
    negative: bool = True,
    values_vjp: Callable = read_back,
) -> Callable:
    """An op `(x, values, *indices, dims, accumulate)` that writes places: it assigns, or adds."""

    def run(
        x: np.ndarray, values: np.ndarray, *indices: np.ndarray, dims: tuple[int, ...], accumulate: bool
    ) -> np.ndarray:
        if not negative:
            check_range(name, kind, x, indices, dims, negative)
        result = x.copy()
        write_places(result, values, indices, dims, accumulate)
        return result

    rules: dict[str, Any] = {
        "spec": lambda x, values, *indices, dims, accumulate: Spec(x._form.shape, x.dtype),
        "run": run,
        "vjp": (
            lambda g, *indices, dims, accumulate: (
                g if accumulate else index_put_op(g, g.new_zeros(()), *indices, dims=dims, accumulate=False)
            ),
            values_vjp,
        ),
        "samples": samples,
        "spec_first": False,
    }
    return opaque(name, **rules) if name == "index_put" else fused(name, index_put_op, rounds=False, **rules)


def index_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), whole(5, high=4), dims=(0,))
    yield Sample(real(4, 3), whole(5, low=-3, high=3), dims=(1,))
    yield Sample(real(4, 3), whole(2, 2, high=4), whole(2, 2, high=3, seed=1), dims=(0, 1))
    yield Sample(real(2, 4, 3), whole(2, high=2), whole(2, high=3), dims=(0, 2))
    yield Fails(IndexError, real(4, 3), np.array([4]), dims=(0,))
    yield Fails(IndexError, real(4, 3), np.array([0, 1]), np.array([0, 1, 2]), dims=(0, 1))


def index_put_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), (np.array([0, 2]),), real(2, 3, seed=1))
    yield Sample(real(4, 3), [np.array([0, 2, 0])], real(3, 3, seed=1), accumulate=True)
    yield Sample(real(4, 3), (np.array([0, -1]), np.array([[1], [2]])), real(seed=1), True)
    yield Sample(real(2, 4, 3), (np.array([0, 1]), np.array([1, 2])), real(3, seed=1))
    yield Sample(real(2, 3), (truth(2, 3),), real(1, seed=1))
    yield Fails(IndexError, real(4, 3), (np.array([4]),), real(3))
    yield Fails(RuntimeError, real(4, 3), (np.array([0, 1]),), real(4))


index_op = gathering_op("index", index_samples)
index_put_op = writing_op("index_put", index_put_samples)
sum_at = fused(
    "sum_at",
    lambda g, *indices, shape, dims: index_put_op(
        g.new_zeros(()).expand(shape), g, *indices, dims=dims, accumulate=True
    ),
    spec=lambda g, *indices, shape, dims: Spec(shape, g.dtype),
    vjp=(lambda g, *indices, dims: index_op(g, *indices, dims=dims),),
    samples=lambda: iter([Sample(real(3, 2), np.array([0, 2, 0]), shape=(4, 2), dims=(0,))]),
)
