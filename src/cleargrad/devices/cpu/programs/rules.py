"""Optimizer steps as machine code: one rule, compiled once, run over all parameters of a group by one native call.

The rule is recorded for a parameter of some length, with the options that may change from step to step, such as the
learning rate, as inputs. What comes out is a template: kernels whose arguments are addresses and the length. `step`
fills it in for every parameter. State stays in ordinary tensors, which are written in place. Read next:
optim/rule.py.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.core.address import LINE, address, lined_up
from cleargrad.core.mode import mode
from cleargrad.core.tensor import INFERENCE, Tensor, cell_of, tick, wrap
from cleargrad.devices.cpu.launch import Launch
from cleargrad.devices.cpu.llvm.jit import addresses
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.devices.cpu.programs.signature import CHUNK, flat
from cleargrad.devices.cpu.team import ALONE, RECORD, WAIT, team
from cleargrad.errors import user_place
from cleargrad.ops.record import CaptureError, Recorder
from cleargrad.optim.rule import SWITCHES
from cleargrad.schedule.fuse import Nest

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
ANY_LENGTH = 2053  # a length that suits no vector, so that the code serves every length
COST, SHARED = 16, 1 << 21  # of an element, and from which sum on two threads are quicker than one

Item = tuple[Tensor, Tensor, dict[str, Any]]  # a parameter, its gradient, its state


class Unfit(Exception):
    """The rule is more than kernels over single elements."""


# Templates -------------------------------------------------------------------------------------------------


class RuleTemplate:
    """A rule as kernels whose arguments are still to be filled in, for parameters of one kind."""

    def __init__(self, optimizer: Any, item: Item, options: dict[str, Any]) -> None:
        self.inputs: list[tuple[str, int | None]] = []  # the options that are read at every step
        parameter, gradient = like(item[0]), like(item[1])
        state = {name: like(kept) for name, kept in item[2].items()}
        self.tensors = [parameter, gradient, *state.values()]
        graph = self.recorded(optimizer, parameter, gradient, state, options)
        program = Program(graph)
        if program.copied:
            raise Unfit("a result cannot lie where the old value lay")
        self.sources = {buffer: self.position(tensor) for buffer, tensor in program.plan.outside}
        self.sources |= {buffer: self.position(tensor) for buffer, tensor in program.replaced.items()}
        self.options = {buffer: number for number, buffer in enumerate(program.plan.inputs)}
        self.work = -(-program.size // LINE) * LINE
        self.launches: list[Launch] = []  # whose arguments say what stands there: a kind, a number, a shift
        self.each: list[bool] = []  # whether they go over all elements; else over single numbers
        for entry in program.entries:
            self.add(program, entry)
        self.written = sorted({self.position(tensor) for tensor, _ in program.plan.writes})
        self.tensors = []

    def recorded(self, optimizer: Any, p: Tensor, g: Tensor, state: dict, options: dict[str, Any]) -> Any:
        before = mode.set(grad=False)
        try:
            with Recorder() as recorder:
                options = self.symbolic(optimizer, recorder, options)
                optimizer._apply(p, g, state, options)
                return recorder.finish([])
        except CaptureError as reason:
            raise Unfit("the rule asks for values") from reason
        finally:
            mode.set(**before)

    def symbolic(self, optimizer: Any, recorder: Recorder, options: dict[str, Any]) -> dict[str, Any]:
        """The options, with those that may change as symbols."""
        changed = dict(options)
        for name, part, _ in numbers_of(optimizer, options):
            symbol = recorder.input(wrap(np.zeros((), F64)))
            self.inputs.append((name, part))
            if part is None:
                changed[name] = symbol
            else:
                changed[name] = tuple(symbol if k == part else x for k, x in enumerate(changed[name]))
        return changed

    def position(self, tensor: Tensor) -> int:
        return next(k for k, other in enumerate(self.tensors) if other is tensor)

    def add(self, program: Program, entry: Any) -> None:
        if not isinstance(entry, Nest) or not (flat(entry) or not entry.space):
            raise Unfit("a kernel over more than single elements")
        each = flat(entry)
        for launch, *_ in program.tasks(entry) or []:
            words = [
                self.word(program, word, each and not number) for number, word in enumerate(launch.arguments)
            ]
            self.launches.append(Launch(launch.kernel, words, 0))
            self.each.append(each)

    def word(self, program: Program, word: Any, is_length: bool) -> tuple[str, int, int]:
        if is_length:
            return "length", 0, 0
        if not isinstance(word, tuple):
            return "number", int(word), 0
        buffer, shift = word
        if buffer in self.sources:
            return "tensor", self.sources[buffer], shift
        if buffer in self.options:
            return "option", self.options[buffer], shift
        if buffer in program.offsets and buffer.size == 1:
            return "work", program.offsets[buffer], shift
        raise Unfit("an index, or memory for more than single numbers in between")


def like(kept: Tensor) -> Tensor:
    """A tensor of the template's length for one of a parameter's shape; a number for a number."""
    return wrap(np.zeros((ANY_LENGTH,) if kept._form.ndim else (), kept._form.dtype))


def numbers_of(optimizer: Any, options: dict[str, Any]) -> Iterator[tuple[str, int | None, float]]:
    """The options that are inputs of a rule; zero may leave out a part of it, so it is no input."""
    for name in optimizer._INPUTS:
        value = options.get(name)
        if type(value) is tuple:
            for part, each in enumerate(value):
                if type(each) in (int, float):
                    yield name, part, each
        elif type(value) in (int, float) and not (name in SWITCHES and value == 0):
            yield name, None, value


# One group -------------------------------------------------------------------------------------------------


class Bound:
    """A template filled in for the parameters of a group, as long as they and their state stay where they are."""

    def __init__(self, template: RuleTemplate, items: list[Item], arrays: list[np.ndarray]) -> None:
        self.template, self.arrays = template, arrays
        count = len(items)
        width = 1 + len(items[0][2])
        self.shapes = [p._form.shape for p, _, _ in items]
        self.sizes = np.array([p._form.size for p, _, _ in items], np.int64)
        self.kind = items[0][0]._form.dtype
        places = np.empty((count, width + 1), np.int64)
        places[:, [0, *range(2, width + 1)]] = np.reshape([address(x) for x in arrays], (count, width))
        self.apart(places)
        self.work = lined_up(count * template.work)
        self.options = np.zeros(max(len(template.inputs), 1), np.float64)
        self.words = np.zeros((count, sum(len(launch.arguments) for launch in template.launches)), np.int64)
        self.gradients: list[
            tuple[int, int]
        ] = []  # the words that are addresses of gradients, and their shifts
        self.fill(places)
        self.records = self.recorded(count)
        self.threads = 2 if self.sizes.sum() * COST > SHARED else 1

    def apart(self, places: np.ndarray) -> None:
        """Refuses memory that two parameters share: their order would matter."""
        sizes = np.array([x.nbytes for x in self.arrays])
        starts = np.delete(places, 1, axis=1).reshape(-1)
        order = np.argsort(starts)
        if np.any(starts[order][1:] < (starts + sizes)[order][:-1]):
            raise Unfit("shared memory")

    def fill(self, places: np.ndarray) -> None:
        own = address(self.work) + np.arange(len(self.words)) * self.template.work
        words = [word for launch in self.template.launches for word in launch.arguments]
        for column, (kind, number, shift) in enumerate(words):
            if kind == "length":
                self.words[:, column] = self.sizes
            elif kind == "number":
                self.words[:, column] = number
            elif kind == "option":
                self.words[:, column] = address(self.options) + 8 * number + shift
            elif kind == "work":
                self.words[:, column] = own + number + shift
            elif number == 1:
                self.gradients.append((column, shift))
            else:
                self.words[:, column] = places[:, number] + shift

    def recorded(self, count: int) -> np.ndarray:
        """Kernel by kernel over all parameters, so that threads meet once per kernel."""
        template = self.template
        rows: list[list[int]] = []
        start, step = address(self.words), self.words.strides[0]
        codes = addresses([launch.kernel for launch in template.launches])
        for code, launch, each in zip(codes, template.launches, template.each, strict=True):
            for number in range(count):
                units = -(-int(self.sizes[number]) // CHUNK) if each else 1
                flags = (WAIT if rows and number == 0 else 0) | (0 if each else ALONE)
                rows.append([code, start + number * step, units, flags])
            start += 8 * len(launch.arguments)
        return np.array(rows, np.int64).reshape(-1, RECORD)

    def run(self, items: list[Item], optimizer: Any, options: dict[str, Any]) -> None:
        kept = []
        places = []
        for (_, g, _), shape in zip(items, self.shapes, strict=True):
            data = g._data
            if data.shape != shape or data.dtype is not self.kind:
                raise Unfit("a gradient of another kind")
            if not data.flags.carray:
                data = np.ascontiguousarray(data)
                kept.append(data)
            places.append(address(data))
        for column, shift in self.gradients:
            self.words[:, column] = places
            if shift:
                self.words[:, column] += shift
        for number, (_, _, value) in enumerate(numbers_of(optimizer, options)):
            self.options[number] = value
        team().run(address(self.records), len(self.records), self.threads)
        self.note(items)

    def note(self, items: list[Item]) -> None:
        """Tells autograd what was written, and where in the user's program."""
        place = user_place()
        positions = [k - 1 for k in self.template.written if k > 1]
        for p, _, state in items:
            values = list(state.values())
            for tensor in (p, *[values[k - 1] for k in positions]):
                cell = cell_of(tensor)
                if cell[0] != INFERENCE:
                    cell[0] = tick()
                    cell[1] += 1
                    cell[2] = place


_templates: dict[tuple, RuleTemplate | None] = {}
_groups: weakref.WeakKeyDictionary[Any, dict[int, tuple[tuple, Bound | None]]] = weakref.WeakKeyDictionary()


def step(optimizer: Any, group: dict[str, Any], options: dict[str, Any], items: list[Item]) -> bool:
    """One step of all parameters; False, and nothing is done, unless all of them are plain."""
    try:
        arrays = [x._data for p, _, state in items for x in (p, *state.values())]
        first = next(item for item in items if item[0]._form.ndim)
        key = kind_of(optimizer, options, first)
    except (AttributeError, TypeError, StopIteration):
        return False
    known = _groups.setdefault(optimizer, {})
    found, bound = known.get(id(group), (None, None))
    same = bound is not None and found == key and len(arrays) == len(bound.arrays)
    if not same or not all(map(operator.is_, arrays, bound.arrays)):  # type: ignore[union-attr]
        bound = bind(key, optimizer, options, first, items, arrays)
        known[id(group)] = (key, bound)
    if bound is None:
        return False
    try:
        bound.run(items, optimizer, options)
    except Unfit:
        return False
    return True


def kind_of(optimizer: Any, options: dict[str, Any], item: Item) -> tuple:
    """All that decides the code of a rule."""
    p, _, state = item
    numbers = {name for name, *_ in numbers_of(optimizer, options)}
    fixed = [(name, options.get(name)) for name in optimizer.defaults if name not in numbers]
    fields = [(name, kept._form.ndim > 0, kept._form.dtype) for name, kept in state.items()]
    key = (type(optimizer), p._form.dtype, *numbers, *fields, *fixed)
    hash(key)
    return key


def bind(
    key: tuple,
    optimizer: Any,
    options: dict[str, Any],
    first: Item,
    items: list[Item],
    arrays: list[np.ndarray],
) -> Bound | None:
    if not all(plain(item, first) for item in items):
        return None
    try:
        if key not in _templates:
            _templates[key] = None
            _templates[key] = RuleTemplate(optimizer, first, options)
        template = _templates[key]
        return None if template is None else Bound(template, items, arrays)
    except Unfit:
        return None


def plain(item: Item, first: Item) -> bool:
    """Whether a parameter and its state are memory that machine code can write."""
    p, _, state = item
    kind, shape = p._form.dtype, p._form.shape
    if (
        kind is not first[0]._form.dtype
        or not (kind is F32 or kind is F64)
        or state.keys() != first[2].keys()
    ):
        return False
    if not all(kept._form.flags.carray and not kept._inference for kept in (p, *state.values())):
        return False
    fields = zip(state.values(), first[2].values(), strict=True)
    return p._form.size > 0 and all(
        kept._form.dtype is other._form.dtype
        and (kept._form.shape == shape if other._form.ndim else kept._form.ndim == 0)
        for kept, other in fields
    )
