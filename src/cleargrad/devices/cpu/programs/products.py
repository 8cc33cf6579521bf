"""Products of matrices for single calls: arrays go in, the compiler's tiles multiply them on the team's threads.

NumPy's linear algebra library adds up in an order of its own, and it keeps threads of its own, which stay awake for
milliseconds after every call and take the processors from the team that runs all other kernels. A product is
prepared once for each shape and layout of its operands; its machine code serves many of those. Read next:
devices/cpu/kernels/gemm.py.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from functools import cache
from math import prod

import numpy as np

from cleargrad.devices.cpu.kernels import gemm
from cleargrad.devices.cpu.launch import SMALL
from cleargrad.devices.cpu.llvm.jit import addresses
from cleargrad.devices.cpu.programs.loops import kernel_of
from cleargrad.devices.cpu.programs.signature import structure
from cleargrad.devices.cpu.short import DATA, pointer
from cleargrad.devices.cpu.team import WAIT, team
from cleargrad.expr.expr import Var, add
from cleargrad.schedule.formulas import Buffer, Formulas
from cleargrad.schedule.fuse import Member, Nest
from cleargrad.threads import when_chosen

LINE = 64
KEPT = 1024  # products that are kept ready
ANY_LENGTH = 2053  # a length that suits no vector, so that the code serves every length
NAMES = ("left", "right", "place", "work")  # what the words of a step may speak of, besides the bias

_lock = threading.RLock()
_ready: OrderedDict[tuple, Ready] = OrderedDict()


class Ready:
    """A product of one shape and layout: machine code, and arguments in which only addresses are missing."""

    def __init__(self, x: np.ndarray, y: np.ndarray, out: np.ndarray, biased: bool) -> None:
        steps = steps_of(x, y, out)
        words: list[int] = []
        starts: list[tuple[int, int, int]] = []  # of each record: its code, its first word, its units
        self.patches: list[tuple[int, int, int]] = []
        for code, step in zip(addresses([step.kernel for step in steps.steps]), steps.steps, strict=True):
            starts.append((code, len(words), step.units))
            for word in step.words:
                if isinstance(word, tuple):
                    self.patches.append((len(words), NAMES.index(word[0]), word[1]))
                words.append(0 if isinstance(word, tuple) else word)
        if biased:
            rows, columns = out.shape
            starts.append((bias_kernel(x.dtype), len(words), rows))
            self.patches += [(len(words) + 2, NAMES.index("place"), 0), (len(words) + 4, len(NAMES), 0)]
            words += [rows, columns, 0, columns, 0]
        self.words, self.work = np.array(words, np.int64), steps.work
        self.slots = memoryview(self.words)  # type: ignore[arg-type]
        base = self.words.__array_interface__["data"][0]
        rows_of_records = [[code, base + 8 * first, units, WAIT] for code, first, units in starts]
        self.records = np.array(rows_of_records, np.int64)
        self.records_at, self.length = self.records.__array_interface__["data"][0], len(starts)
        self.threads = 1 if prod(out.shape) * x.shape[-1] < SMALL else 2
        self.team = team()
        self.lock = (
            threading.Lock()
        )  # arguments are one piece of memory, also for two threads that call at once

    def run(self, x: np.ndarray, y: np.ndarray, out: np.ndarray, bias: np.ndarray | None) -> None:
        places = [pointer(id(x) + DATA).value, pointer(id(y) + DATA).value, pointer(id(out) + DATA).value, 0]
        if self.work:
            memory = np.empty(self.work + LINE, np.uint8)
            start = pointer(id(memory) + DATA).value or 0
            places[3] = start + -start % LINE
        if bias is not None:
            places.append(pointer(id(bias) + DATA).value)
        with self.lock:
            slots = self.slots
            for position, name, shift in self.patches:
                slots[position] = places[name] + shift  # type: ignore[operator]
            self.team.run(self.records_at, self.length, self.threads)


def steps_of(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> gemm.Steps:
    """The steps of a product; one matrix stands for a stack with strides of zero."""
    size = x.itemsize
    left, right, place = (
        [0] * (out.ndim - array.ndim)
        + [
            0 if extent == 1 and axis < array.ndim - 2 else step // size
            for axis, (extent, step) in enumerate(zip(array.shape, array.strides, strict=True))
        ]
        for array in (x, y, out)
    )
    extents = (out.shape[:-2], x.shape[-2], y.shape[-1], x.shape[-1])
    return gemm.steps(*extents, x.dtype, left, right, place, team().threads)


@cache
def bias_kernel(kind: np.dtype) -> int:
    """Machine code that adds a vector to rows; its words: rows, columns, matrix, distance of rows, vector."""
    formulas, shape = Formulas(), (7, ANY_LENGTH)
    matrix = formulas.load(Buffer(0, shape, kind, "input", (2 * ANY_LENGTH, 1)))
    vector = formulas.load(Buffer(1, (ANY_LENGTH,), kind, "input", (1,)), shape, (0, 1))
    value = formulas.map(add(Var("x", 0), Var("y", 1)), (matrix, vector), kind, kind, shape)
    nest = Nest(shape[:1], shape[1:], [Member(matrix, value)])
    arguments = structure(nest)
    assert [word[1] for word in arguments.words if isinstance(word, tuple)] == [matrix, vector]
    return addresses([kernel_of(nest, arguments)])[0]


def product(
    x: np.ndarray, y: np.ndarray, bias: np.ndarray | None = None, out: np.ndarray | None = None
) -> np.ndarray:
    """x @ y, of float32 or float64, plus a bias for the rows of a matrix."""
    kind = x.dtype
    key = (kind, x.shape, x.strides, y.shape, y.strides, bias is None, None if out is None else out.strides)
    if out is None:
        lead = x.shape[:-2] if y.ndim == 2 else np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        out = np.empty((*lead, x.shape[-2], y.shape[-1]), kind)
    found = _ready.get(key)
    if found is None:
        if not out.size:
            return out
        if not all(map(simple, (x, y, out))) or not (bias is None or simple(bias)):
            return product_of_copies(x, y, bias, out)
        found = made(key, x, y, out, bias)
    found.run(x, y, out, bias)
    return out


def product_of_copies(x: np.ndarray, y: np.ndarray, bias: np.ndarray | None, out: np.ndarray) -> np.ndarray:
    """For operands that lie too strangely for the kernels."""
    copies = [None if array is None else np.ascontiguousarray(array) for array in (x, y, bias)]
    out[...] = product(*copies)  # type: ignore[arg-type]
    return out


def made(key: tuple, x: np.ndarray, y: np.ndarray, out: np.ndarray, bias: np.ndarray | None) -> Ready:
    with _lock:
        if key not in _ready:
            _ready[key] = Ready(x, y, out, bias is not None)
            if len(_ready) > KEPT:
                _ready.popitem(last=False)
        return _ready[key]


def simple(array: np.ndarray) -> bool:
    """Whether the kernels take an array: it lies along one of its last dimensions, in whole elements."""
    size = array.itemsize
    near = array.ndim < 2 or size in array.strides[-2:]
    return near and array.flags.aligned and all(step >= 0 and step % size == 0 for step in array.strides)


def forget_all() -> None:
    """In a forked child: locks may be held by threads that it does not have, and the team is its own."""
    global _lock
    _lock = threading.RLock()
    _ready.clear()


os.register_at_fork(after_in_child=forget_all)
when_chosen.append(_ready.clear)
