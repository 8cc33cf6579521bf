"""The tensor record: an array, its place in the graph, its gradient, and the version of its memory.

Only what every layer needs stands here; ops attach the rest of PyTorch's methods (see tensor.py at the top).
Read next: expr/expr.py.

Fields:
  _data   the NumPy array; its strides are the tensor's strides, so views need no machinery of their own. The slot
          is empty while the value waits to be computed: whoever looks has it computed first (`__getattr__`)
  _form   an array of the tensor's shape, dtype and strides, whose elements may be nobody's: `_data` itself, or what
          stands for its layout while the value waits. Who asks for the layout alone reads this one
  _wait   who computes a value that waits, and _slot its number there; or where a value is `Held` that lies on
          another device than the CPU; empty in all other tensors
  _edge   None when no gradient is needed, else the Node (or Output of a Node) that receives it
  grad    the accumulated gradient of a leaf
  _ver    the version cell of the memory, shared by all views: [tick of the last change, number of changes,
          place of the last change, the `Room`]; None until somebody else looks into the memory or it changes
          (`cell_of`)
  _base   for a view, the tensor it looks into; then _seen is the tick at which _edge was right, and _caution
          is None or the reason why the view may not be written through while gradients are recorded
"""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from cleargrad.core.device import CPU, Held, Memory, device, on_device
from cleargrad.core.dtype import OF_NUMPY, dtype
from cleargrad.core.mode import mode
from cleargrad.core.shape import Size
from cleargrad.errors import error, user_frame

# One clock orders everything that happens to the graph. A node takes a tick when it is made, memory takes one
# when it changes; a saved tensor is stale exactly when its memory's tick is later than its node's.
tick = itertools.count(1).__next__
INFERENCE = sys.maxsize  # the tick of memory made in inference mode, so that no node can save it
new = object.__new__

IN_NO_GRAD = "it was made while gradients were off"  # a `_caution`; such a view stays outside the graph

FROZEN = gc.get_freeze_count()  # objects frozen before there were tensors: Python 3.12 begins with some


class Tensor:
    """A multi-dimensional array that can remember how it was computed."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_base",
        "_caution",
        "_data",
        "_edge",
        "_form",
        "_grad",
        "_seen",
        "_slot",
        "_ver",
        "_wait",
    )

    if TYPE_CHECKING:
        # Methods and operators come from the ops' declarations, which a static checker cannot follow.
        _data: Any
        _form: Any
        _wait: Any
        _slot: int
        _edge: Any
        _grad: Any
        _ver: Any
        _base: Any
        _seen: int
        _caution: str | None

        __add__: Any
        __radd__: Any
        __sub__: Any
        __rsub__: Any
        __mul__: Any
        __rmul__: Any
        __truediv__: Any
        __rtruediv__: Any
        __floordiv__: Any
        __mod__: Any
        __pow__: Any
        __matmul__: Any
        __neg__: Any
        __pos__: Any
        __invert__: Any
        __and__: Any
        __or__: Any
        __xor__: Any
        __lt__: Any
        __le__: Any
        __gt__: Any
        __ge__: Any
        __getitem__: Any
        __setitem__: Any
        __iter__: Any
        __len__: Any

    def __getattr__(self, name: str) -> Any:
        """What no other way has found: the value of a tensor that waits, which is computed now, or nothing."""
        if name == "_data":
            return looked_at(self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def shape(self) -> Size:
        return Size(self._form.shape)

    @property
    def dtype(self) -> dtype:
        return OF_NUMPY[self._form.dtype]

    @property
    def ndim(self) -> int:
        return self._form.ndim

    @property
    def _inference(self) -> bool:
        """Whether it was made in inference mode: its memory counts as changed after everything."""
        return self._ver is not None and self._ver[0] == INFERENCE

    def bump(self) -> None:
        """Notes that the memory changed, and where in the user's program."""
        frame = user_frame(sys._getframe(1))
        cell = cell_of(self)
        if cell[0] == INFERENCE:
            return
        cell[0] = tick()
        cell[1] += 1
        cell[2] = None if frame is None else (frame.f_code, frame.f_lasti)


value_of = Tensor.__dict__["_data"].__get__  # the value itself: an error if it waits
waits_for = Tensor.__dict__["_wait"].__get__


def looked_at(tensor: Tensor) -> np.ndarray:
    """The value of a tensor that waits, or has just waited: other threads look, too."""
    while True:
        try:
            waiting = waits_for(tensor)
        except AttributeError:
            return value_of(tensor)
        waiting.look(tensor)
        try:
            return value_of(tensor)
        except AttributeError:
            if getattr(tensor, "_wait", None) is waiting:
                raise RuntimeError("a value that waited was not computed: a mistake in cleargrad") from None
            continue  # it waits again, for another thread has gone on


def wrap(data: np.ndarray, edge=None) -> Tensor:
    """A new tensor around an array that nobody else writes to."""
    tensor = new(Tensor)
    tensor._data = tensor._form = data
    tensor._edge = edge
    tensor._grad = None
    tensor._ver = None
    tensor._base = None
    return tensor


def held(tensor: Tensor) -> Held | None:
    """Where the value of a tensor lies, if not on the CPU; if it waits there, it is computed now."""
    try:
        value_of(tensor)
    except AttributeError:
        found = getattr(tensor, "_wait", None)
        if found is not None and type(found) is not Held and found.place is not CPU:
            found.look(tensor)
            found = getattr(tensor, "_wait", None)
        return found if type(found) is Held else None
    return None


def place_of(tensor: Tensor) -> device:
    """The device of a tensor, whether its value is there or waits."""
    try:
        value_of(tensor)
    except AttributeError:
        found = getattr(tensor, "_wait", None)
        return CPU if found is None else found.place
    return CPU


def put(tensor: Tensor, value: np.ndarray | Held) -> None:
    """Gives a tensor a value: an array, or one that lies on another device."""
    if type(value) is Held:
        tensor._form, tensor._wait = value.form, value
        with suppress(AttributeError):
            del tensor._data
    else:
        if held(tensor) is not None:
            del tensor._wait
        tensor._data = tensor._form = value


def value_in(tensor: Tensor) -> Any:
    """The value of a tensor as an array, or where it lies on another device."""
    try:
        return value_of(tensor)
    except AttributeError:
        return held(tensor) or tensor._data


def wrap_any(value: np.ndarray | Held, edge: Any = None) -> Tensor:
    """A new tensor around an array, or around a value on another device."""
    if not isinstance(value, Held):
        return wrap(value, edge)
    tensor = wrap(value.form, edge)
    put(tensor, value)
    return tensor


def wrap_beside(data: np.ndarray, other: Tensor) -> Tensor:
    """A new tensor of known values, on the device of another tensor."""
    return wrap_any(on_device(data, place_of(other)))


def check_values(name: str, tensor: Tensor) -> None:
    """Refuses a call that decides by values, of a tensor that has none."""
    found = held(tensor)
    if found is not None and not found.driver.has_values:
        rule = f"what it gives depends on values, which a tensor on {found.place} does not have"
        raise error(NotImplementedError, name, rule)


def is_seen(tensor: Tensor) -> bool:
    """Whether the values of a tensor are at hand, so that bad ones can be refused before they are used."""
    return mode.recorder is None and place_of(tensor) is CPU


def cell_of(tensor: Tensor) -> list:
    """The version cell, made when it is first needed: most tensors are never written and never viewed."""
    cell = tensor._ver
    if cell is None:
        cell = tensor._ver = [0, 0, None, None]
    return cell


def mark_inference(tensor: Tensor) -> None:
    tensor._ver = [INFERENCE, 0, None, None]


class Room:
    """Memory that several tensors look into, and who they are; of some memory that cannot be told."""

    __slots__ = ("known", "many", "tensors", "whole")

    def __init__(self) -> None:
        self.tensors: list[weakref.ref[Tensor]] = []
        self.many = 32  # references, from which on those to tensors that are gone are dropped
        self.known = True
        self.whole: Tensor | None = None  # all of it, once a view was detached, which is a view of nothing

    def add(self, tensor: Tensor) -> None:
        self.tensors.append(weakref.ref(tensor))
        if len(self.tensors) > self.many:
            self.tensors = [each for each in self.tensors if each() is not None]
            self.many = max(32, 2 * len(self.tensors))


def room_of(tensor: Tensor) -> Room:
    """The room of a tensor's memory, made when a second tensor comes to look into it."""
    cell = cell_of(tensor)
    if cell[3] is None:
        cell[3] = room = Room()
        room.add(tensor)
    return cell[3]


def lookers(tensor: Tensor) -> list[Tensor] | None:
    """All tensors that look into the memory of one; None if nobody can tell."""
    if is_lent(tensor):
        return None
    cell = tensor._ver
    if cell is None or cell[3] is None:
        return [tensor]
    room = cell[3]
    if not room.known:
        return None
    return [found for each in room.tensors if (found := each()) is not None]


# What NumPy puts between an array and its window.
STRIDED: Any = type(np.lib.stride_tricks.as_strided(np.zeros(1)).base)

# Memory that others than tensors can see, by the id of the array that owns it: what they see it by, while it lives.
lent: dict[int, list[weakref.ref]] = {}


def owner_of(data: Any) -> Any:
    """What owns the memory of an array."""
    array = data
    while isinstance(array, (np.ndarray, STRIDED)) and array.base is not None:
        array = array.base
    return array


def is_lent(tensor: Tensor) -> bool:
    """Whether others than tensors can see the memory, and may change it at any time."""
    owner = owner_of(tensor._form)
    return not isinstance(owner, (np.ndarray, Memory)) or id(owner) in lent


def note_lent(data: np.ndarray, seen: np.ndarray | None = None) -> None:
    """Others than tensors see the memory of an array, for as long as `seen` lives; without it, as long as there is
    the memory."""
    owner = owner_of(data)
    if not isinstance(owner, np.ndarray):
        return
    key = id(owner)

    def give_back(reference: weakref.ref) -> None:
        left = [each for each in lent.pop(key, ()) if each is not reference]
        if left:
            lent[key] = left

    lent.setdefault(key, []).append(weakref.ref(owner if seen is None else seen, give_back))


def lend(tensor: Tensor) -> np.ndarray:
    """The memory of a tensor as an array for others; arrays made of it keep it alive, so its end is theirs."""
    data = tensor._data
    if data.dtype.kind == "V":  # no buffer format has bfloat16
        note_lent(data)
        return data.view()
    seen = np.asarray(memoryview(data))
    note_lent(data, seen)
    return seen


def wrap_view(data: np.ndarray, source: Tensor, edge=None, caution: str | None = None) -> Tensor:
    """A new tensor that looks into the memory of `source`."""
    tensor = new(Tensor)
    tensor._data = tensor._form = data
    tensor._edge = edge
    tensor._grad = None
    tensor._ver = cell = cell_of(source)
    base = source._base
    tensor._base = source if base is None else base
    tensor._seen = cell[0]
    (cell[3] or room_of(source)).add(tensor)
    tensor._caution = caution if base is None or caution is not None else source._caution
    return tensor


def as_array(result) -> np.ndarray:
    """NumPy hands back a scalar for 0-d results; a tensor always holds an array."""
    return result if type(result) is np.ndarray else np.asarray(result)
