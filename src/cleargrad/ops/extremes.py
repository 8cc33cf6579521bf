"""Extremes: the largest and smallest elements, and where they are.

`amax` and `max` over everything share a gradient evenly among equal elements; `max` over a dimension returns
indices and sends the gradient to that one place. `selection` is the form of every op that picks one element
per line: median, mode and kthvalue use it too. Read next: ops/statistics.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, reduced, wrap_dim
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops import return_types
from cleargrad.ops.declare import ANY, REAL, composite, face, fused, opaque, reduction
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.reductions import dims_of, in_float32, restore
from cleargrad.ops.samples import Fails, Sample, real, reductions, whole
from cleargrad.ops.views import check_tensor


def check_not_empty(op: str, input: Tensor, dim: Any) -> None:
    """PyTorch's two errors for an extreme of nothing: by whether a dimension was named."""
    shape = input._form.shape
    if dim is None or dim == ():
        if not input._form.size:
            rule = "expected reduction dim to be specified for an input without elements"
            raise error(RuntimeError, op, rule, input=input, fix="specify the reduction dim with `dim`")
        return
    for axis in dims_of(op, input, dim):
        if not shape[axis]:
            rule = f"expected reduction dim {axis} to have non-zero size"
            raise error(IndexError, op, rule, input=input)


# Values ----------------------------------------------------------------------------------------------------


def share_evenly(g: Tensor, x: Tensor, out: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """The gradient of a value that several equal elements have."""
    equal = x == restore(out, dim, keepdim)
    return restore(g, dim, keepdim) / equal.sum(dim, keepdim=True) * equal if dim else g


def extreme_samples() -> Iterator[Sample]:
    yield from reductions()()
    yield Sample(whole(3, 4), 0)
    yield Sample(real(0, 3), 1)
    yield Fails(IndexError, real(0, 3), 0)
    yield Fails(RuntimeError, real(0, 3))


def extreme(name: str, combine: Callable, node: str, samples: Callable = extreme_samples) -> Callable:
    return reduction(
        name, combine, start=None, vjp=share_evenly, samples=samples, accepts=REAL, node=node
    )  # fmt: skip


def whole_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), dim=(0, 1), keepdim=False)
    yield Sample(real(), dim=(), keepdim=False)


largest = extreme("amax", lambda x, y: expr.maximum(x, y), "AmaxBackward0")
smallest = extreme("amin", lambda x, y: expr.minimum(x, y), "AminBackward0")
# PyTorch prints other names for extremes of the whole tensor.
largest_of_all = extreme("max_all", lambda x, y: expr.maximum(x, y), "MaxBackward1", whole_samples)
smallest_of_all = extreme("min_all", lambda x, y: expr.minimum(x, y), "MinBackward1", whole_samples)


@face(largest, method=True, out=True)
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The largest element over dimensions."""
    dims = dims_of("amax", input, dim)
    check_not_empty("amax", input, dim)
    return largest(input, dim=dims, keepdim=keepdim)


@face(smallest, method=True, out=True)
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest element over dimensions."""
    dims = dims_of("amin", input, dim)
    check_not_empty("amin", input, dim)
    return smallest(input, dim=dims, keepdim=keepdim)


def aminmax_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real(3, 4), dim=0)
    yield Sample(real(3, 4), dim=-1, keepdim=True)
    yield Fails(RuntimeError, real(0, 3))
    yield Fails(IndexError, real(3, 4), dim=2)


@composite(aminmax_samples, method=True, out=True)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> return_types.Named:
    """The smallest and the largest element."""
    dims = dims_of("aminmax", input, dim)
    check_not_empty("aminmax", input, dim)
    low, high = (door(input, dim=dims, keepdim=keepdim) for door in (smallest, largest))
    return return_types.aminmax((low, high))


# One element per line --------------------------------------------------------------------------------------


def place_back(g: list, out1: Tensor, *, x_shape: tuple, dim: int, keepdim: bool) -> Tensor:
    """Each line's gradient goes to the element that was picked."""
    if not x_shape:
        return g[0]
    gradient, index = g[0], out1
    if not keepdim:
        gradient, index = gradient.unsqueeze(dim), index.unsqueeze(dim)
    return gradient.new_zeros(x_shape).scatter(dim, index, gradient)


def selection_spec(op: str, x: Tensor, dim: int, keepdim: bool, accepts: tuple[int, ...] = ANY) -> list[Spec]:
    if x.dtype.category not in accepts:
        raise error(NotImplementedError, op, f"not implemented for {x.dtype}", input=x)
    check_not_empty(op, x, dim)
    shape = reduced(x._form.shape, (dim,), keepdim)
    return [Spec(shape, x.dtype), Spec(shape, dtypes.int64)]


def run_selection(choose: Callable, x: np.ndarray, dim: int, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    """`choose(array, axis)` gives the index of one element per line; this takes the elements."""
    if not x.ndim:
        return x.copy(), np.zeros((), np.int64)
    index = np.expand_dims(choose(in_float32(x), dim), dim)
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def run_extreme(
    join: Callable, choose: Callable, x: np.ndarray, dim: int, keepdim: bool
) -> tuple[np.ndarray, np.ndarray]:
    """A selection whose value NumPy finds faster by itself than by its index."""
    axis = dim if x.ndim else None
    work = in_float32(x)
    values = join(work, axis=axis, keepdims=keepdim)
    return np.asarray(values).astype(x.dtype, copy=False), choose(work, axis=axis, keepdims=keepdim)


def selection(
    name: str,
    choose: Callable,
    *,
    samples: Callable,
    accepts: tuple[int, ...] = REAL,
    node: str | None = None,
    join: Callable | None = None,
    parts: Callable | None = None,
) -> Callable:
    """An op that picks one element of every line along `dim`: outputs are the elements and their indices.

    `join` finds the element faster than by its index, and then `parts` say both by themselves.
    """
    select = partial(run_selection, choose) if join is None else partial(run_extreme, join, choose)
    rules: dict[str, Any] = {
        "spec": lambda x, *, dim, keepdim: selection_spec(name, x, dim, keepdim, accepts),
        "run": lambda x, *, dim, keepdim: select(x, dim, keepdim),
        "vjp": place_back,
        "samples": samples,
        "outputs": 2,
        "node": node,
    }
    return opaque(name, **rules) if parts is None else fused(name, parts, rounds=False, **rules)


def max_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real())
    yield Sample(real(3, 4, 2), 1)
    yield Sample(real(3, 4), -1, True)
    yield Sample(whole(3, 4), dim=0)
    yield Sample(real(3, 4), real(4, seed=1))
    yield Fails(IndexError, real(3, 4), 2)
    yield Fails(RuntimeError, real(0))
    yield Fails(IndexError, real(0), 0)


def value_and_place(value: Callable, place: Callable) -> Callable:
    def parts(x: Tensor, *, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
        ordered = x.byte() if x.dtype is dtypes.bool_ else x
        dims = (dim,) if x._form.ndim else ()
        return value(x, dim=dims, keepdim=keepdim), place()(ordered, dim, keepdim)

    return parts


max_by_dim = selection(
    "max",
    np.argmax,
    join=np.maximum.reduce,
    parts=value_and_place(largest, lambda: argmax),
    samples=max_samples,
)
min_by_dim = selection(
    "min",
    np.argmin,
    join=np.minimum.reduce,
    parts=value_and_place(smallest, lambda: argmin),
    samples=max_samples,
)


def max_or_min(name: str, of_all: Callable, by_dim: Callable, pairwise: str, result: type) -> Callable:
    """PyTorch's three functions of one name: of everything, along a dimension, and of two tensors."""

    def public(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None) -> Any:
        check_tensor(name, input)
        if isinstance(dim, Tensor) or other is not None:
            return getattr(input, pairwise)(dim if other is None else other)
        if dim is None:
            check_not_empty(name, input, None)
            return of_all(input, dim=tuple(range(input._form.ndim)), keepdim=False)
        return result(by_dim(input, dim=wrap_dim(name, dim, input._form.ndim), keepdim=keepdim))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"The {name}imum of all elements, along a dimension with its index, or of two tensors."
    return face(by_dim, method=True, out=True)(public)


max_ = max_or_min("max", largest_of_all, max_by_dim, "maximum", return_types.max)
min_ = max_or_min("min", smallest_of_all, min_by_dim, "minimum", return_types.min)


# Places ----------------------------------------------------------------------------------------------------


def place_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4))
    yield Sample(real())
    yield Sample(real(3, 4), 1)
    yield Sample(real(3, 4, 2), -2, True)
    yield Sample(whole(3, 4), dim=0)
    yield Fails(IndexError, real(3, 4), 2)
    yield Fails(IndexError, real(0))


def place_of(name: str, choose: Callable) -> Callable:
    """The family of argmax: the index of the first extreme, in the flat tensor or along a dimension."""

    def spec(x: Tensor, *, dim: int | None, keepdim: bool) -> Spec:
        shape = x._form.shape
        if x.dtype.category not in (dtypes.INTEGER, dtypes.FLOAT):
            raise error(RuntimeError, name, f"not implemented for {x.dtype}", input=x)
        if not (x._form.size if dim is None else shape[dim] if shape else 1):
            raise error(IndexError, name, "expected the reduction dim to have non-zero size", input=x)
        dims = tuple(range(len(shape))) if dim is None or not shape else (dim,)
        return Spec(reduced(shape, dims, keepdim), dtypes.int64)

    def run(x: np.ndarray, *, dim: int | None, keepdim: bool) -> np.ndarray:
        return choose(in_float32(x), axis=dim if x.ndim else None, keepdims=keepdim)

    door = opaque(name, spec=spec, run=run, vjp=NO_GRAD, samples=place_samples)

    def public(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        check_tensor(name, input)
        return door(
            input, dim=None if dim is None else wrap_dim(name, dim, input._form.ndim), keepdim=keepdim
        )

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"The index of the first {name[3:]}imum, of the flat tensor or along a dimension."
    return face(door, method=True, out=True)(public)


argmax = place_of("argmax", np.argmax)
argmin = place_of("argmin", np.argmin)
