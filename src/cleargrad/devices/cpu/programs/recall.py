"""Small calls that are known again: what a function does with arguments of these layouts is found out once.

Now and then an op says that it was called (`notice`). The public function that the user's program called is
then given other code: a call asks what is known first (devices/cpu/known_calls.py), and does what it did before
if nothing is. A call that comes again with the same layouts is studied, by being watched: if it makes one op,
of which there is a program, and gives its result, then the next such call runs the program at once. It gives
the same bits, and links the same node.

What decides is compared at every call: the class, dtype, shape and strides of each tensor, and each other
argument, which must be the same object and one that never changes. Functions that draw random numbers, that warn,
or that give views, are as they were. Read next: compile/again.py.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

import numpy as np

from cleargrad.autograd.node import Output, edge_of, extra_of
from cleargrad.core.device import device
from cleargrad.core.dtype import dtype, when_default_changes
from cleargrad.core.mode import SPECIAL, gate, mode, spared
from cleargrad.core.tensor import Tensor, held, new, tick, wrap
from cleargrad.devices.cpu import known_calls as recall
from cleargrad.devices.cpu.programs.eager import program_of
from cleargrad.errors import PACKAGE
from cleargrad.graph.passes import DRAWS
from cleargrad.ops.apply import differentiable
from cleargrad.ops.conversion import layout, memory_format
from cleargrad.ops.doors import Seen, place_of
from cleargrad.ops.op import FACES, NO_GRAD, Op
from cleargrad.ops.record import CaptureError, Graph, Recorder

MANY = 4  # operands that may need gradients, from which on a call is not worth knowing
OFTEN = 3  # notices of a function after which it asks what is known
BETWEEN = 16  # unknown calls of a function between two that are studied
HOPELESS = 6  # calls that were studied for nothing, after which a function is as it was before
LARGE = 1 << 13  # elements of a result from which arithmetic outweighs everything else
CONSTANTS = frozenset((int, float, bool, str, type(None), dtype, device, layout, memory_format))
PUBLIC, RANDOM = "cleargrad.ops.", "cleargrad.ops.random"  # where public functions are, and those that draw
UNSET = object()  # stands for a variable that has no value yet

_lock = threading.RLock()


# Which function the user has called ------------------------------------------------------------------------

_functions: dict[CodeType, list[FunctionType]] = {}
_noticed: Counter[FunctionType] = Counter()
_recalled: dict[FunctionType, Recalled] = {}
_done: set[FunctionType] = set()  # that ask, or never will


def notice(frame: FrameType | None) -> None:
    """An op was called from this frame: the public function that is behind it may be worth remembering."""
    if mode.recorder is not None or mode.waiter is not None or not fits_here():
        return
    inside = []
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        inside.append(frame)
        frame = frame.f_back
    for each in reversed(inside):
        function = function_of(each)
        if function is not None and function not in _done:
            _noticed[function] += 1
            if _noticed[function] >= OFTEN:
                with _lock:
                    if function not in _done:
                        _done.add(function)
                        install(function)
            return


def fits_here() -> bool:
    """Whether this Python has one lock for all threads, and arrays are what the machine code takes them for."""
    return getattr(sys, "_is_gil_enabled", lambda: True)() and recall.array_fields() is not None


def function_of(frame: FrameType) -> FunctionType | None:
    """The public function that runs in a frame, if it is one."""
    if not _functions:
        find_functions()
    alike = _functions.get(frame.f_code, ())
    if len(alike) < 2:
        return alike[0] if alike else None
    names, local = frame.f_code.co_freevars, frame.f_locals  # one function may have made many
    for function in alike:
        if all(
            is_in(cell, local.get(name, UNSET))
            for name, cell in zip(names, function.__closure__ or (), strict=True)
        ):
            return function
    return None


def is_in(cell: CellType, value: Any) -> bool:
    try:
        return cell.cell_contents is value
    except ValueError:
        return value is UNSET


def find_functions() -> None:
    methods = [thing for thing in vars(Tensor).values() if type(thing) is FunctionType]
    _functions.clear()
    for function in dict.fromkeys([*(face.function for face in FACES), *methods]):
        while function is not None:
            if type(function) is FunctionType and is_plain(function):
                alike = _functions.setdefault(function.__code__, [])
                if function not in alike:
                    alike.append(function)
            function = getattr(function, "__wrapped__", None) or getattr(function, "inner", None)


STARS = 0x04 | 0x08  # flags of code that takes any arguments


def is_plain(function: FunctionType) -> bool:
    """Whether a function takes a few arguments, and may give a result that depends on nothing else."""
    code, name = function.__code__, function.__name__
    few = code.co_argcount + code.co_kwonlyargcount <= recall.ROOM and not code.co_flags & STARS
    writes = name.endswith("_") and not name.endswith("__")
    return (
        few
        and not writes
        and function.__module__.startswith(PUBLIC)
        and not function.__module__.startswith(RANDOM)
    )


# A function that asks first --------------------------------------------------------------------------------

ASKING = """
def outer({cells}):
    def {name}({parameters}):
        recall = "recall"
        unknown = "unknown"
        found = recall({arguments})
        if found is unknown:
            before = "before"
            return before({call})
        return found
        {cells}
"""


class Recalled:
    """A public function, what it was before, and what is known of it."""

    def __init__(self, function: FunctionType) -> None:
        code = function.__code__
        self.function, self.code = function, code
        self.before = FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.before.__kwdefaults__ = function.__kwdefaults__
        count, named = code.co_argcount, code.co_kwonlyargcount
        self.names = code.co_varnames[: count + named]
        self.positional = count
        self.memory = recall.CallTable(self.study, way, gate, (1, SPECIAL), place_of_data())
        self.seen: set[tuple] = set()
        self.refused: set[tuple] = set()

    def install(self) -> None:
        self.memory.study_after(BETWEEN)
        self.function.__code__ = self.asking()

    def restore(self) -> None:
        """Makes the function what it was before. What it knew stays: a call may be in the middle of it."""
        self.function.__code__ = self.code
        self.forget()

    def forget(self) -> None:
        self.memory.forget()
        self.seen.clear()
        self.refused.clear()

    def asking(self) -> CodeType:
        """The function's new code: with its name, its place and its parameters."""
        old, names = self.code, list(self.names)
        positional, named = names[: self.positional], names[self.positional :]
        only = old.co_posonlyargcount
        parameters = [
            *positional[:only],
            *["/"] * bool(only),
            *positional[only:],
            *["*"] * bool(named),
            *named,
        ]
        call = [*positional, *(f"{name}={name}" for name in named)]
        text = ASKING.format(
            name=old.co_name, parameters=", ".join(parameters), arguments=", ".join(names),
            call=", ".join(call), cells=", ".join(old.co_freevars) or "()" if old.co_freevars else "",
        )  # fmt: skip
        outer = next(
            each for each in compile(text, old.co_filename, "exec").co_consts if type(each) is CodeType
        )
        code = next(each for each in outer.co_consts if type(each) is CodeType)
        stand_ins = {"recall": self.memory.function, "before": self.before, "unknown": recall.UNKNOWN}
        constants = tuple(stand_ins.get(x, x) if type(x) is str else x for x in code.co_consts)
        return code.replace(
            co_consts=constants, co_filename=old.co_filename, co_firstlineno=old.co_firstlineno,
            co_qualname=old.co_qualname,
        )  # fmt: skip

    def call(self, args: tuple) -> Any:
        named = dict(zip(self.names[self.positional :], args[self.positional :], strict=True))
        return self.before(*args[: self.positional], **named)

    def study(self, *args: Any) -> Any:
        """A call that is not known: if it has come before, it will be."""
        self.memory.study_after(BETWEEN)
        key = key_of(args)
        if key is None or key in self.refused or key not in self.seen:
            if key is not None and len(self.seen) < 64 * recall.MOST:
                self.seen.add(key)
            return self.call(args)
        watcher = Watcher()
        with watcher:
            result = self.call(args)
        with _lock:
            known = None
            if not watcher.warned and self.memory.words[recall.COUNT] < recall.MOST:
                known = learnt(self, args, watcher.calls, result)
            if known is not None:
                self.memory.add(known)
            else:
                self.refused.add(key)
                self.give_up_if_hopeless()
        return result

    def give_up_if_hopeless(self) -> None:
        if len(self.refused) >= HOPELESS and not self.memory.calls:
            self.function.__code__ = self.code
        if len(self.memory.calls) >= recall.MOST:
            self.memory.study_after(1 << 62)


def install(function: FunctionType) -> None:
    if function not in _recalled:
        _recalled[function] = Recalled(function)
    _recalled[function].install()


def install_all() -> None:
    """Has every public function ask, as tests do."""
    find_functions()
    for function in [each for alike in _functions.values() for each in alike]:
        _done.add(function)
        install(function)


def restore_all() -> None:
    """Makes all functions what they were before."""
    for recalled in _recalled.values():
        recalled.restore()
    _done.clear()
    _noticed.clear()


def forget(*_: Any) -> None:
    """What calls give depends on the default dtype."""
    for each in _recalled.values():
        each.forget()


when_default_changes.append(forget)


def way() -> int:
    """How a call is made where not all threads record gradients: SPECIAL where others see it."""
    how = mode.how
    return spared() if how == SPECIAL else how


_data_place: list[int] = []


def place_of_data() -> int:
    if not _data_place:
        _data_place.append(recall.place_in(new(Tensor), "_data"))
    return _data_place[0]


# What a call does ------------------------------------------------------------------------------------------


class Watcher:
    """Sees the ops that a call makes, and whether it warns."""

    def __init__(self) -> None:
        self.calls: list[tuple[Op, tuple, dict[str, Any], Any]] = []
        self.warned = False
        self.warn = warnings.warn

    def __enter__(self) -> None:
        self.before = mode.set(observer=self)
        warnings.warn = self.warn_too  # type: ignore[assignment]

    def __exit__(self, *exception: object) -> None:
        warnings.warn = self.warn
        mode.set(**self.before)

    def warn_too(self, message: Any, category: Any = None, stacklevel: int = 1, **more: Any) -> None:
        self.warned = True
        self.warn(message, category, stacklevel + 1, **more)

    def around(self, op: Op) -> Callable:
        def run(*operands: Any, **attrs: Any) -> Any:
            made = op.run(*operands, **attrs)
            self.calls.append((op, operands, attrs, made))
            return made

        return run


def leaves(value: Any) -> Iterator[Any]:
    if type(value) in (list, tuple):
        yield from value
    else:
        yield value


def key_of(args: tuple) -> tuple | None:
    """All that decides what a call does; None if there is more to it than is compared."""
    key: list[Any] = []
    tensors: set[int] = set()
    for value in args:
        kinds = {isinstance(item, Tensor) for item in leaves(value)}
        if len(kinds) > 1 or (type(value) is list and True not in kinds):
            return None
        key.append(type(value) if type(value) in (list, tuple) else None)
        for item in leaves(value):
            if isinstance(item, Tensor):
                if held(item) is not None:
                    return None
                data = item._data
                if not data.flags.aligned or id(data) in tensors:
                    return None  # of two that are the same, nobody knows which one an op has taken
                tensors.add(id(data))
                key.append((type(item), data.shape, data.strides, data.dtype))
            elif type(item) is float:
                key.append(item.hex())
            elif type(item) in CONSTANTS:
                key.append((type(item), item))
            else:
                return None
    return tuple(key)


def learnt(recalled: Recalled, args: tuple, calls: list, result: Any) -> recall.Known | None:
    """What a call with these arguments does, if it can be known again."""
    if len(calls) != 1 or type(result) is not Tensor or result._base is not None or held(result) is not None:
        return None
    op, operands, attrs, made = calls[0]
    outs = made if op.outputs != 1 else [made]
    number = next((k for k, array in enumerate(outs) if array is result._data), None)
    if (
        number is None
        or op.view
        or op.name in DRAWS
        or len(outs) > recall.SEVERAL
        or any(map(holds_array, attrs.values()))
    ):
        return None
    if not all(type(out) is np.ndarray and out.flags.c_contiguous and out.size <= LARGE for out in outs):
        return None
    tensors = {
        id(item._data): f"a{k}[{index}]" if type(value) in (list, tuple) else f"a{k}"
        for k, value in enumerate(args)
        for index, item in enumerate(leaves(value))
        if isinstance(item, Tensor)
    }
    if not 0 < len(tensors) <= recall.ROOM:
        return None
    sources = [tensors.get(id(operand)) for operand in operands]
    if op.vjp is not NO_GRAD and len(set(sources) - {None}) > MANY:
        return None
    if any(source is None and not is_number(operand) for source, operand in zip(sources, operands)):
        return None
    arrays = [item._data for value in args for item in leaves(value) if isinstance(item, Tensor)]
    graph = recorded(recalled, args, op)
    program = None if graph is None else program_of(graph, arrays)
    if program is None or not program.short or program.block is None:
        return None
    if program.output_specs != [(out.shape, out.dtype) for out in outs]:
        return None
    again = program.run(arrays)
    for found, out in zip(again, outs, strict=True):
        if found.tobytes() != out.tobytes() or found.strides != out.strides:
            return None
    finish = Finish(op, operands, attrs, outs, number, len(args), sources, recalled.call).function()
    if not alike(finish(*again, int(mode.grad), *args), result):
        return None
    return recall.Known(list(map(wanted_of, args)), program, finish)


def is_number(operand: Any) -> bool:
    return operand is None or type(operand) in (int, float, bool)


def holds_array(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(holds_array, value))
    return isinstance(value, (np.ndarray, Tensor))


class OpRecorder(Recorder):
    """Remembers what one op has made."""

    outs: Any = ()

    def __init__(self, op: Op) -> None:
        super().__init__()
        self.op = op

    def call(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        outs = super().call(op, operands, attrs)
        if op is self.op:
            self.outs = outs
        return outs


def recorded(recalled: Recalled, args: tuple, op: Op) -> Graph | None:
    """The graph of a call, up to what its op makes; None if it looks at values, writes, or reads anything else."""
    before = mode.set(grad=False, observer=None, saved_hooks=None, inference=False)
    try:
        with OpRecorder(op) as recorder:
            given = []
            for value in args:
                items = [recorder.input(wrap(x._data)) if isinstance(x, Tensor) else x for x in leaves(value)]
                given.append(type(value)(items) if type(value) in (list, tuple) else items[0])
            recalled.call(tuple(given))
            graph = recorder.finish(list(leaves(recorder.outs)))
    except CaptureError:
        return None
    finally:
        mode.set(**before)
    drawn = any(call.op.name in DRAWS for call in graph.calls)
    if recorder.writes or graph.writes or graph.outside or drawn:
        return None
    return graph


def alike(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors stand in the graph in the same way."""
    a, b = tensor._edge, other._edge
    if a is None or b is None:
        return a is b
    same = type(a) is type(b) and a.plan is b.plan and a.attrs == b.attrs and a.edges == b.edges
    kept = [[type(x) for x in each.saved] for each in (a, b)]
    return same and a.shape == b.shape and a.dtype == b.dtype and kept[0] == kept[1]


def wanted_of(value: Any) -> tuple[int, Any]:
    """What an argument must be like another time."""
    if isinstance(value, Tensor):
        return recall.TENSOR, recall.layout(type(value), value._data)
    if type(value) is float:
        return recall.FLOAT, recall.Literal(np.float64(value).view(np.int64))
    if type(value) not in (list, tuple):
        return recall.SAME, value
    tensors = any(isinstance(item, Tensor) for item in value)
    items = [recall.layout(type(item), item._data) for item in value] if tensors else value
    head = [
        type(value),
        recall.Literal(len(value)),
        recall.Literal(recall.items_of_tuple() if type(value) is tuple else 0),
    ]
    return recall.TENSORS if tensors else recall.OBJECTS, recall.Words([*head, *items])


# The tensor, and its node ----------------------------------------------------------------------------------


class Finish:
    """Writes the function that makes a tensor of what a program gave, and links it as ops/apply.py does."""

    def __init__(
        self, op: Op, operands: tuple, attrs: dict[str, Any], outs: list[np.ndarray], number: int, count: int,
        sources: list[str | None], otherwise: Callable,
    ) -> None:  # fmt: skip
        """The result is one of what the op gives; `sources` are the operands' names, None for a constant."""
        self.op, self.operands, self.outs, self.number, self.sources = op, operands, outs, number, sources
        self.parameters = [f"a{k}" for k in range(count)]
        self.tensors = [k for k, source in enumerate(sources) if source is not None]
        self.scope: dict[str, Any] = {
            "new": new, "Tensor": Tensor, "Output": Output, "edge_of": edge_of, "tick": tick,
            "getframe": sys._getframe, "seen": Seen, "place_of": place_of, "extra_of": extra_of,
            "kind": op.node, "attrs": attrs or None, "otherwise": otherwise,
            "shape": outs[0].shape if len(outs) == 1 else tuple(out.shape for out in outs),
            "dtype": outs[0].dtype if len(outs) == 1 else tuple(out.dtype for out in outs),
        }  # fmt: skip
        self.scope |= {f"constant{k}": x for k, x in enumerate(operands) if sources[k] is None}

    def function(self) -> Callable:
        results = [f"out{k}" for k in range(len(self.outs))]
        lines = [
            f"def finish({', '.join([*results, 'how', *self.parameters])}):",
            "    tensor = new(Tensor)",
            f"    tensor._data = tensor._form = out{self.number}",
            "    tensor._grad = tensor._ver = tensor._base = None",
        ]
        if (
            self.op.vjp is not NO_GRAD
            and differentiable(self.outs[self.number])
            and self.number not in self.op.without_grad
        ):
            lines += self.linking()
        exec("\n".join([*lines, "    tensor._edge = None", "    return tensor"]), self.scope)
        return self.scope["finish"]

    def linking(self) -> list[str]:
        """The part of it where gradients are recorded."""
        lines = ["    if how:"]
        for k in self.tensors:
            source = self.sources[k]
            lines.append(f"        edge{k} = {source}._edge if {source}._base is None else edge_of({source})")
            if not callable(self.op.vjp) and k < len(self.op.vjp) and self.op.vjp[k] is None:
                # No gradient goes there: the function may go another way then.
                lines.append(
                    f"        if edge{k} is not None: return otherwise(({', '.join(self.parameters)},))"
                )
        return [*lines, *self.branches("        ", ())]

    def branches(self, indent: str, needs: tuple[bool, ...]) -> list[str]:
        """For each way in which operands may need gradients, what is done then."""
        if len(needs) == len(self.sources):
            return [indent + line for line in self.node(needs)] if any(needs) else [f"{indent}pass"]
        k = len(needs)
        if k not in self.tensors:
            return self.branches(indent, (*needs, False))
        with_edge = self.branches(indent + "    ", (*needs, True))
        without = self.branches(indent + "    ", (*needs, False))
        return [f"{indent}if edge{k} is not None:", *with_edge, f"{indent}else:", *without]

    def node(self, needs: tuple[bool, ...]) -> list[str]:
        """A node of the op for operands of which these need gradients."""
        plan = self.op.plan(needs)
        name = "plan" + "".join("01"[need] for need in needs)
        self.scope[name] = plan
        saved = [
            (self.sources[k] or f"constant{k}") if plan.keeps[k] else "None"
            for k in range(len(self.operands))
        ]
        lines = []
        if plan.keeps_output:
            for k in range(len(self.outs)):
                lines.append(f"cell{k} = [0, 0, None, None]")
                saved.append(f"(out{k}, cell{k}, {k})" if plan.keeps[len(self.operands) + k] else "None")
            lines.append(f"tensor._ver = cell{self.number}")
        keeps = plan.keeps_operands or plan.keeps_output
        edges = [f"edge{k}" if need else "None" for k, need in enumerate(needs)]
        lines += [
            "node = kind()",
            f"node.edges = ({', '.join(edges)},)",
            "node.shape = shape",
            "node.dtype = dtype",
            "node.tick = tick()",
            "node.attrs = attrs",
            "node.extra = None",
            f"node.plan = {name}",
            f"node.saved = ({', '.join(saved)},)" if keeps else "node.saved = ()",
        ]
        if len(self.outs) > 1:
            lines.append(f"extra_of(node).outputs = {len(self.outs)}")
        lines.append(f"tensor._edge = Output(node, {self.number})" if self.number else "tensor._edge = node")
        if not keeps:
            return [*lines, "node.place = None", "return tensor"]
        return [
            *lines,
            "frame = getframe(2)",
            "code = frame.f_code",
            "node.place = (code, frame.f_lasti) if code is seen.code else place_of(frame)",
            "return tensor",
        ]
