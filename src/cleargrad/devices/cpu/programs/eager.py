"""Compiled kernels for eager calls: scalar formulas over large arrays, and programs of fused ops.

A formula is compiled once for all lengths. A fused op is compiled for the shapes, strides and dtypes of its
operands, from the ops it is made of; its kernels are shared by all shapes of the same signature, so only the
first one costs a compilation. What the compiler cannot do well is refused, and NumPy goes on. Read next:
devices/cpu/programs/rules.py.
"""

from __future__ import annotations

import threading
from math import prod
from types import FrameType
from typing import Any

import numpy as np

from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import wrap
from cleargrad.devices.cpu.launch import Launch, Launcher, Launches, Prepared
from cleargrad.devices.cpu.llvm.reading import readable
from cleargrad.devices.cpu.programs.chains import Chain
from cleargrad.devices.cpu.programs.loops import kernel_of
from cleargrad.devices.cpu.programs.products import product
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.devices.cpu.programs.rules import step
from cleargrad.devices.cpu.programs.signature import CHUNK, arguments_of
from cleargrad.expr.expr import Expr, conditions
from cleargrad.ops.op import Op
from cleargrad.ops.record import CaptureError, Graph, Recorder
from cleargrad.schedule.formulas import Buffer, Formulas
from cleargrad.schedule.fuse import Member, Nest
from cleargrad.schedule.statements import Native, Product

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
ANY_LENGTH = 2053  # a length that suits no vector, so that the code serves every length
OFTEN, COUNTED = 8, 4096  # calls from which small arrays have a program, and layouts that are counted
MEMORY = 1 << 28  # bytes that those may hold between calls
# Elements times their cost from which a second thread gains more than its waking up loses: about 100 microseconds.
SHARED = 1 << 21
TOUCH = 4  # what reading and writing an element costs beside the instructions of its formula


# Formulas --------------------------------------------------------------------------------------------------


class Formula:
    """The kernel of a scalar expression over arrays of one layout; numbers are read from memory."""

    def __init__(self, tree: Expr, kind: np.dtype, operands: tuple[tuple[np.dtype, bool], ...]) -> None:
        formulas = Formulas()
        length = ANY_LENGTH
        loads = [
            formulas.load(Buffer(k, (length,), dtype, "input", (1,)), strides=(1,) if whole else (0,))
            for k, (dtype, whole) in enumerate(operands)
        ]
        place = formulas.load(Buffer(len(operands), (length,), kind, "inside", (1,)))
        nest = Nest((), (length,), [Member(place, formulas.map(tree, tuple(loads), kind, kind, (length,)))])
        self.cost = TOUCH + nest.work
        found = arguments_of(nest)
        self.kernel, self.words = kernel_of(nest, found), found.words
        self.names = [load.buffer for load in (*loads, place)]

    def launcher(self, length: int) -> Launcher:
        words = [word if isinstance(word, tuple) else length for word in self.words]
        needed = Launches([Launch(self.kernel, words, -(-length // CHUNK))], 0)
        return Launcher(needed, length * self.cost <= SHARED, self.names)


_formulas: dict[tuple, Formula | None] = {}
_launchers = Prepared()
_trees: list[Expr] = []  # keeps their ids from being used again


def formula(tree: Expr, operands: tuple) -> np.ndarray | None:
    """The value of an expression; None unless all operands are of one layout, or numbers.

    They are floats of one dtype, but for booleans by which others are chosen.
    """
    first = operands[0]
    shape, flags = first.shape, first.flags
    order: Any = "C" if flags.c_contiguous else "F" if flags.f_contiguous else None
    kind = next((x.dtype for x in operands if isinstance(x, np.ndarray) and x.dtype.kind == "f"), None)
    if order is None or not (kind is F32 or kind is F64):
        return None
    arrays, kinds = [], []
    for x in operands:
        whole = isinstance(x, np.ndarray) and x.ndim > 0
        if whole:
            alike = (x.dtype is kind or x.dtype.kind == "b") and x.shape == shape and x.flags.aligned
            if not alike or not (x.flags.c_contiguous if order == "C" else x.flags.f_contiguous):
                return None
        else:
            x = np.array(x, kind)
        kinds.append((x.dtype, whole))
        arrays.append(x)
    key = (first.size, id(tree), kind, *kinds)
    found = _launchers.get(key)
    if found is None:
        made = made_formula(key[1:], tree, kind, tuple(kinds))
        if made is None:
            return None
        found = _launchers.made(key, made.launcher, first.size)
    out = np.empty(shape, kind, order)
    found.run(*arrays, out)
    return out


def made_formula(key: tuple, tree: Expr, kind: np.dtype, operands: tuple) -> Formula | None:
    with Prepared.lock:
        if key not in _formulas:
            _trees.append(tree)
            boolean = {k for k, (dtype, _) in enumerate(operands) if dtype.kind == "b"}
            fits = boolean == conditions(tree) and readable(tree, kind.name)
            _formulas[key] = Formula(tree, kind, operands) if fits else None
        return _formulas[key]


# Fused ops -------------------------------------------------------------------------------------------------


class FusedOp:
    """The program of a fused op for operands of one layout."""

    def __init__(self, program: Program, several: bool) -> None:
        self.program, self.several = program, several
        self.lock = threading.Lock()  # arguments and memory are the program's own

    def run(self, arrays: list[np.ndarray]) -> Any:
        with self.lock:
            results = self.program.run(arrays)
        return results if self.several else results[0]


class Programs(Prepared):
    """The programs of fused ops: their number, and the memory they hold, have bounds."""

    def too_large(self) -> bool:
        return super().too_large() or (len(self) > 1 and sum(map(held_by, self.values())) > MEMORY)


_programs = Programs(256)
_counts: dict[tuple, int] = {}


def parts(op: Op, operands: tuple, attrs: dict[str, Any], at_once: bool = True) -> Any | None:
    """The results of a fused op by a program; None where there is none, or the layout has not come often."""
    layout: list[Any] = [op.name]
    arrays = []
    for x in operands:
        if isinstance(x, np.ndarray):
            if not x.flags.aligned:
                return None
            arrays.append(x)
            layout.append((x.shape, x.strides, x.dtype))
        else:
            layout.append((type(x), x))
    key = (*layout, *attrs.values())
    try:
        found = _programs[key]
    except KeyError:
        if not at_once and not often(key):
            return None
        found = _programs.made(key, compiled, op, operands, attrs)
    except TypeError:  # an attribute that cannot be compared
        return None
    return None if found is None else found.run(arrays)


def often(key: tuple) -> bool:
    """Counts how often operands of a layout came that have no program."""
    if len(_counts) > COUNTED:
        _counts.clear()
    _counts[key] = count = _counts.get(key, 0) + 1
    return count >= OFTEN


def compiled(op: Op, operands: tuple, attrs: dict[str, Any]) -> FusedOp | None:
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    before = mode.set(grad=False, autocast=None, observer=None, saved_hooks=None, inference=False)
    try:
        with Recorder() as recorder:
            given = [recorder.input(wrap(x)) if isinstance(x, np.ndarray) else x for x in operands]
            spec = op.spec(*given, **attrs)
            graph = recorder.finish(recorder.parts_of(op, tuple(given), attrs, spec))
    except CaptureError:
        return None
    finally:
        mode.set(**before)
    program = program_of(graph, arrays)
    return None if program is None else FusedOp(program, not isinstance(spec, Spec))


def program_of(graph: Graph, arrays: list[np.ndarray]) -> Program | None:
    """The program of a few calls on arrays, if all of it can be machine code."""
    if any(x.dtype not in (F32, F64) and x.dtype.kind not in "biu" for x in arrays):
        return None
    graph.input_arrays = arrays  # whose strides may be stranger than a new array's
    program = Program(graph)
    graph.input_arrays = []
    if not all(isinstance(segment, tuple) for segment in program.segments):
        return None
    cost = sum(cost_of(entry) for entry in program.entries)
    program.forget_making(graph)
    if cost < SHARED and program.only_native is not None:
        program.only_native = [(*part[:2], 1) for part in program.only_native]
        if program.work < program.little:
            program.be_short()
    return program


def cost_of(entry: Any) -> int:
    """About what an entry of a program costs, in instructions for single elements."""
    if isinstance(entry, Nest):
        return prod(entry.space) * (TOUCH + entry.work)
    if isinstance(entry, Native):
        return entry.work
    if isinstance(entry, Chain):
        return sum(map(cost_of, entry.entries))
    return (
        prod(entry.place.shape) * entry.left.shape[-1]
        if isinstance(entry, Product)
        else entry.rows.buffer.size
    )


def held_by(found: FusedOp | None) -> int:
    return 0 if found is None or found.program.block is None else found.program.size


def notice(frame: FrameType) -> None:
    """Some op was called: it may be worth remembering."""
    from cleargrad.devices.cpu.programs import recall  # which makes programs by this module

    recall.notice(frame)


__all__ = ["formula", "notice", "parts", "product", "step"]
