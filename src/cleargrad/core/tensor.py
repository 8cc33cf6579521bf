"""The tensor record: an array, its place in the graph, its gradient, and the version of its memory.

Only what every layer needs stands here; ops attach the rest of PyTorch's methods (see tensor.py at the top).
Read next: autograd/node.py.

Fields:
  _data   the NumPy array; its strides are the tensor's strides, so views need no machinery of their own
  _edge   None when no gradient is needed, else the Node (or Output of a Node) that receives it
  grad    the accumulated gradient of a leaf
  _ver    the version cell of the memory, shared by all views: [tick of the last change, number of changes,
          place of the last change], and behind them the whole memory once a view of it was detached, which is no
          view of anything any more; None until somebody else looks into the memory or it changes (`cell_of`)
  _base   for a view, the tensor it looks into; then _seen is the tick at which _edge was right, and _caution
          is None or the reason why the view may not be written through while gradients are recorded
"""

from __future__ import annotations

import gc
import itertools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from cleargrad.core.dtype import OF_NUMPY, dtype
from cleargrad.core.shape import Size
from cleargrad.errors import user_frame

# One clock orders everything that happens to the graph. A node takes a tick when it is made, memory takes one
# when it changes; a saved tensor is stale exactly when its memory's tick is later than its node's.
tick = itertools.count(1).__next__
INFERENCE = sys.maxsize  # the tick of memory made in inference mode, so that no node can save it
new = object.__new__

IN_NO_GRAD = "it was made while gradients were off"  # a `_caution`; such a view stays outside the graph

FROZEN = gc.get_freeze_count()  # objects frozen before there were tensors: Python 3.12 begins with some


class Tensor:
    """A multi-dimensional array that can remember how it was computed."""

    __slots__ = ("__dict__", "__weakref__", "_base", "_caution", "_data", "_edge", "_grad", "_seen", "_ver")

    if TYPE_CHECKING:
        # Methods and operators come from the ops' declarations, which a static checker cannot follow.
        _data: Any
        _edge: Any
        _grad: Any
        _ver: Any
        _base: Any
        _seen: int
        _caution: str | None

        def __getattr__(self, name: str) -> Any: ...

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

    @property
    def shape(self) -> Size:
        return Size(self._data.shape)

    @property
    def dtype(self) -> dtype:
        return OF_NUMPY[self._data.dtype]

    @property
    def ndim(self) -> int:
        return self._data.ndim

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


def wrap(data: np.ndarray, edge=None) -> Tensor:
    """A new tensor around an array that nobody else writes to."""
    tensor = new(Tensor)
    tensor._data = data
    tensor._edge = edge
    tensor._grad = None
    tensor._ver = None
    tensor._base = None
    return tensor


def cell_of(tensor: Tensor) -> list:
    """The version cell, made when it is first needed: most tensors are never written and never viewed."""
    cell = tensor._ver
    if cell is None:
        cell = tensor._ver = [0, 0, None]
    return cell


def mark_inference(tensor: Tensor) -> None:
    tensor._ver = [INFERENCE, 0, None]


def wrap_view(data: np.ndarray, source: Tensor, edge=None, caution: str | None = None) -> Tensor:
    """A new tensor that looks into the memory of `source`."""
    tensor = new(Tensor)
    tensor._data = data
    tensor._edge = edge
    tensor._grad = None
    tensor._ver = cell = cell_of(source)
    base = source._base
    tensor._base = source if base is None else base
    tensor._seen = cell[0]
    tensor._caution = caution if base is None or caution is not None else source._caution
    return tensor


def as_array(result) -> np.ndarray:
    """NumPy hands back a scalar for 0-d results; a tensor always holds an array."""
    return result if type(result) is np.ndarray else np.asarray(result)
