"""Where the values of a trace lie: in NumPy's memory, or at addresses of another device.

All that waits together lies on one side, and its program runs there. An act works on arrays, which on the other
side only give addresses and layouts: whoever reads or writes elements asks the side. Read next: compile/ending.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cleargrad.core.device import CPU, Driver, Held, device
from cleargrad.core.tensor import Tensor, value_of, wrap, wrap_any
from cleargrad.ops.op import OPS, Op


class Here:
    """The CPU."""

    place = CPU
    whole: frozenset[str] = frozenset()  # fused ops that programs there have kernels for

    def give(self, tensor: Tensor, array: np.ndarray) -> None:
        """A tensor that waits gets its value."""
        tensor._data = tensor._form = array
        del tensor._wait

    def wrap(self, array: Any) -> Tensor:
        return wrap(array)

    def array(self, tensor: Tensor) -> np.ndarray:
        """The memory of a tensor whose value is there."""
        return tensor._data

    def receive(self, data: np.ndarray) -> np.ndarray:
        """Known elements, in memory of their own."""
        return data.copy()

    def copy(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def call(self, op: Op, operands: Sequence, attrs: dict[str, Any]) -> Sequence:
        result = op.run(*operands, **attrs)
        return result if isinstance(result, (list, tuple)) else (result,)

    def write(self, target: np.ndarray, value: np.ndarray) -> None:
        np.copyto(target, value, casting="unsafe")

    def scale(self, target: np.ndarray, factor: np.ndarray) -> None:
        np.multiply(target, factor, out=target)

    def laid_out(self, array: np.ndarray, form: np.ndarray) -> np.ndarray:
        """A result in the layout that was foretold."""
        if is_laid_out(array, form):
            return array
        layout = narrow(form)  # elements that a form shows many times are there once
        nbytes = sum([(n - 1) * step for n, step in zip(layout.shape, layout.strides)]) + layout.itemsize
        memory = np.empty(nbytes if layout.size else 0, np.uint8)
        fresh = np.ndarray(layout.shape, layout.dtype, memory, 0, layout.strides)
        fresh[...] = narrow(array, form)
        return widened(fresh, form)

    def program(self, make: Callable, graph: Any) -> Any:
        return make(graph)


class There(Here):
    """A device whose memory has addresses."""

    def __init__(self, place: device, driver: Driver) -> None:
        self.place, self.driver, self.whole = place, driver, driver.whole

    def held(self, array: np.ndarray) -> Held:
        return Held(self.place, self.driver, array, array)

    def give(self, tensor: Tensor, array: np.ndarray) -> None:
        tensor._form, tensor._wait = array, self.held(array)

    def wrap(self, array: Any) -> Tensor:
        return wrap_any(self.held(array))

    def array(self, tensor: Tensor) -> np.ndarray:
        return tensor._form

    def receive(self, data: np.ndarray) -> np.ndarray:
        return self.driver.receive(data)

    def copy(self, array: np.ndarray) -> np.ndarray:
        target = self.driver.allocate(array)
        self.driver.write(target, target, array)
        return target

    def call(self, op: Op, operands: Sequence, attrs: dict[str, Any]) -> Sequence:
        if op.view:
            return super().call(op, operands, attrs)
        return self.driver.made(op, list(operands), attrs)

    def write(self, target: np.ndarray, value: np.ndarray) -> None:
        self.driver.write(target, target, value)

    def scale(self, target: np.ndarray, factor: np.ndarray) -> None:
        self.write(target, self.call(OPS["mul"], (target, factor), {})[0])

    def laid_out(self, array: np.ndarray, form: np.ndarray) -> np.ndarray:
        if is_laid_out(array, form):
            return array
        target = self.driver.allocate(narrow(form))
        self.write(target, narrow(array, form))
        return widened(target, form)

    def program(self, make: Callable, graph: Any) -> Any:
        return self.driver.program(graph)


HERE = Here()
sides: dict[device, There] = {}
FEW = 64  # names of devices
near: dict[int, tuple[device, There]] = {}  # by the ids of names, which is found sooner


def side_of(tensor: Tensor) -> Here | None:
    """The side on which a tensor has its value, or will have it; None where calls do not wait."""
    try:
        value_of(tensor)
    except AttributeError:
        holder = getattr(tensor, "_wait", None)
        if type(holder) is Held:
            return side_at(holder) if holder.driver.addressed else None
        return HERE if holder is None else holder.side
    return HERE


def side_at(value: Held) -> There:
    known = near.get(id(value.place))
    if known is not None and known[0] is value.place:
        return known[1]
    found = sides.get(value.place)
    if found is None or found.driver is not value.driver:  # another driver was registered for the name
        found = sides[value.place] = There(value.place, value.driver)
    if len(near) > FEW:
        near.clear()
    near[id(value.place)] = value.place, found
    return found


def form_there(tensor: Any, side: Here | None) -> np.ndarray | None:
    """The memory of a tensor that has its value on a side which is not the CPU; None if it has not."""
    holder = getattr(tensor, "_wait", None)
    if type(holder) is not Held or side is None:
        return None
    return tensor._form if holder.place is side.place or holder.place == side.place else None


def narrow(array: np.ndarray, form: np.ndarray | None = None) -> np.ndarray:
    """An array, without the dimensions along which a form, or it itself, shows the same elements again."""
    strides = array.strides if form is None else form.strides
    if 0 not in strides or not array.size:
        return array
    return array[tuple([slice(1) if step == 0 else slice(None) for step in strides])]


def widened(array: np.ndarray, form: np.ndarray) -> np.ndarray:
    """An array without such dimensions, shown as the form shows it."""
    if array.shape == form.shape:
        return array
    return np.ndarray(form.shape, form.dtype, memory_of(array), 0, form.strides)


def memory_of(array: np.ndarray) -> np.ndarray:
    """The memory from an array's first element on: that of a dense one, or what `memory_like` has taken."""
    turned = array.transpose(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    if turned.flags.c_contiguous:
        return turned.reshape(-1).view(np.uint8)
    assert array.base is not None and array.base.ndim == 1
    return array.base


def is_laid_out(array: np.ndarray, form: np.ndarray) -> bool:
    if array.strides == form.strides or array.size <= 1:
        return True
    pairs = zip(array.strides, form.strides, form.shape)
    return all(own == foretold for own, foretold, extent in pairs if extent > 1)
