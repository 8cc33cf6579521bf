"""Places in a tensor as numbers and as coordinates: unravel_index, and nonzero with a size known beforehand.

Read next: ops/indexing.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, contiguous_strides
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, opaque
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, real, truth, whole
from cleargrad.ops.views import check_tensor


def unravel_samples() -> Iterator[Sample]:
    yield Sample(np.array([1, 5, 7, -1]), (2, 3))
    yield Sample(np.array([[0, 23], [11, 4]]), (2, 3, 4))
    yield Sample(np.array(3), 5)
    yield Sample(np.array(0), ())
    yield Fails(TypeError, real(2), (2, 3))
    yield Fails(TypeError, whole(2), 5.0)
    yield Fails(TypeError, whole(2), (2.0, 3))
    yield Fails(ValueError, whole(2), (-2, 3))


@composite(unravel_samples, vjp=NO_GRAD)
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, one tensor per dimension, of places counted in a tensor of that shape."""
    check_tensor("unravel_index", indices, "indices")
    if indices.dtype.category != dtypes.INTEGER:
        rule = f"expected 'indices' to be integer dtype, but got {indices.dtype}"
        raise error(TypeError, "unravel_index", rule)
    sizes = (shape,) if isinstance(shape, int) else shape
    if not isinstance(sizes, (tuple, list)) or not all(isinstance(size, int) for size in sizes):
        rule = f"expected 'shape' to be an int or a sequence of ints, but got {shape!r}"
        raise error(TypeError, "unravel_index", rule)
    if any(size < 0 for size in sizes):
        raise error(ValueError, "unravel_index", f"'shape' cannot have negative values, but got {shape}")
    steps = contiguous_strides(sizes)
    return tuple((indices // step) % size for step, size in zip(steps, sizes, strict=True))


def static_samples() -> Iterator[Sample]:
    yield Sample(truth(3, 4), size=5)
    yield Sample(whole(6, high=2), size=2)
    yield Sample(real(2, 2), size=6, fill_value=9)
    yield Sample(np.array(3), size=2)
    yield Sample(np.zeros((0, 2)), size=2)
    yield Fails(RuntimeError, truth(3), size=-1)
    yield Fails(TypeError, truth(3))


def static_spec(x: Tensor, *, size: int, fill_value: int) -> Spec:
    if size < 0:
        raise error(RuntimeError, "nonzero_static", f"'size' must be a non-negative integer, got {size}")
    return Spec((size, x._form.ndim), dtypes.int64)


def run_static(x: np.ndarray, *, size: int, fill_value: int) -> np.ndarray:
    result = np.full((size, x.ndim), fill_value, np.int64)
    if x.ndim:
        found = np.argwhere(x)[:size]
        result[: len(found)] = found
    return result


first_places = opaque("nonzero_static", spec=static_spec, run=run_static, vjp=NO_GRAD, samples=static_samples)


@face(first_places, method=True, out=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The indices of the first `size` elements that are not zero, one row each; missing rows are filled."""
    check_tensor("nonzero_static", input)
    return first_places(input, size=size, fill_value=fill_value)
