"""Facts: what else than tensors decides what a call records, and must be so again when its program is run.

Modules say how they are made up, optimizers and scalers which options they follow, and the user's functions which
names they read. Facts are tuples that compare equal as long as nothing relevant has changed.
Read next: compile/capture.py.
"""

from __future__ import annotations

import dis
import functools
import gc
import sys
import sysconfig
from collections.abc import Iterator
from operator import itemgetter
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import llvmlite
import numpy as np

from cleargrad.autograd.node import AccumulateGrad
from cleargrad.codegen.team import team
from cleargrad.core.device import device
from cleargrad.core.dtype import dtype
from cleargrad.core.tensor import Tensor
from cleargrad.core.watch import watch
from cleargrad.errors import PACKAGE
from cleargrad.nn import hooks as module_hooks
from cleargrad.nn.module import Module
from cleargrad.optim import optimizer as optimizer_hooks
from cleargrad.optim.optimizer import Optimizer
from cleargrad.optim.rule import SWITCHES

PLAIN = (int, float, complex, bool, str, bytes, type(None), dtype, device)
HOOKS = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_pre_hooks",
)
OWN = (PACKAGE, np.__path__[0], llvmlite.__path__[0])  # cleargrad, and what it runs on
PYTHON = (sysconfig.get_paths()["stdlib"], "<frozen")
MISSING = object()
MODULE_CALL, MODULE_FORWARD = Module.__call__.__code__, Module._call_impl.__code__


class Same:
    """Compares by identity, and keeps what it stands for alive, so that no other object gets its place."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __repr__(self) -> str:
        return f"<{type(self.thing).__name__}>"


def is_plain(value: Any) -> bool:
    """Whether a value is compared by what it is, not by which object it is."""
    if type(value) in (tuple, frozenset):
        return all(map(is_plain, value))
    return isinstance(value, PLAIN)


def fact(value: Any) -> Any:
    """A value as something that can be compared: plain values with their type, everything else by identity."""
    if type(value) is tuple:
        return tuple(map(fact, value))
    return (type(value), value) if is_plain(value) else Same(value)


# Modules, optimizers, scalers ------------------------------------------------------------------------------


def module_facts(module: Module) -> tuple:
    """Mode, members and their wish for gradients, hooks, and attributes that are numbers or tensors."""
    fields = module.__dict__
    members = tuple(
        (name, Same(member), isinstance(member, Tensor) and member._edge is not None)
        for table in ("_parameters", "_buffers", "_modules")
        for name, member in fields[table].items()
    )
    hooks = tuple((name, tuple(map(Same, fields[name].values()))) for name in HOOKS if fields[name])
    plain = tuple(
        (name, fact(value))
        for name, value in fields.items()
        if isinstance(value, (*PLAIN, Tensor)) or type(value) is tuple
        if name != "_hooked"
    )
    return type(module), module.training, members, hooks, plain


def tensor_facts(tensor: Tensor) -> tuple:
    """Whether a tensor wants a gradient, and which hooks will see it."""
    edge = tensor._edge
    extra = edge.extra if type(edge) is AccumulateGrad else None
    hooks = (
        ()
        if extra is None
        else (*extra.prehooks.values(), *extra.posthooks.values(), *extra.accumulated.values())
    )
    return edge is None, tuple(map(Same, hooks))


def everywhere(_: Any) -> tuple:
    """Hooks on all modules and all optimizers that may change anything, and for how many threads work is cut."""
    tables = (
        module_hooks.global_forward_pre_hooks,
        module_hooks.global_forward_hooks,
        module_hooks.global_backward_pre_hooks,
        module_hooks.global_backward_hooks,
        optimizer_hooks.EVERY_STEP_BEFORE,
        optimizer_hooks.EVERY_STEP_AFTER,
    )
    onlookers = watch.onlookers
    hooks = (tuple(Same(hook) for hook in table.values() if hook not in onlookers) for table in tables)
    return (*hooks, team().threads)


def optimizer_facts(optimizer: Optimizer) -> tuple:
    """Groups with their parameters, and the state that there is for each; options are another matter."""
    groups = tuple(tuple(map(Same, group["params"])) for group in optimizer.param_groups)
    state = tuple(
        (Same(parameter), tuple((name, fact(value)) for name, value in kept.items()))
        for parameter, kept in optimizer.state.items()
    )
    hooks = tuple(
        tuple(map(Same, getattr(optimizer, name).values()))
        for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    )
    return Same(optimizer.state), groups, state, hooks


def scaler_facts(scaler: Any) -> tuple:
    """The rules of a GradScaler, its tensors, and how far it is with each optimizer."""
    states = scaler._per_optimizer_states.items()
    stages = tuple((key, state["stage"]) for key, state in states if state["stage"].value)
    rules = (scaler._growth_factor, scaler._backoff_factor, scaler._growth_interval)
    return rules, Same(scaler._scale), Same(scaler._growth_tracker), stages


class OptionCheck:
    """Whether the options of an optimizer that a program has fixed are still the same."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.state, self.size = optimizer.state, len(optimizer.state)
        inputs = optimizer._INPUTS
        self.fixed: list[list[tuple[str, Any]]] = []
        self.switched_on: list[list[str]] = []
        self.getters: list[tuple[Any, tuple] | None] = []
        for group in optimizer.param_groups:
            names = optimizer.defaults if inputs else [name for name in group if name != "params"]
            fixed = [n for n in names if not (n in inputs and is_input(n, group[n]))]
            self.fixed.append([(name, group[name]) for name in fixed])
            self.switched_on.append([n for n in names if n not in fixed and n in SWITCHES])
            quick = len(fixed) > 1 and all(is_plain(group[name]) for name in fixed)
            self.getters.append((get := itemgetter(*fixed), get(group)) if quick else None)

    def holds(self) -> bool:
        optimizer = self.optimizer
        groups = optimizer.param_groups
        if (
            len(groups) != len(self.fixed)
            or optimizer.state is not self.state
            or len(self.state) != self.size
        ):
            return False
        for group, fixed, switched_on, quick in zip(groups, self.fixed, self.switched_on, self.getters):
            if quick is not None:
                if quick[0](group) != quick[1]:
                    return False
            elif not all(holds(group, name, value) for name, value in fixed):
                return False
            for name in switched_on:
                if not group[name]:
                    return False
        return True


def is_input(name: str, value: Any) -> bool:
    """Whether an option is a number that a program reads at every run."""
    if type(value) is tuple:
        return all(type(part) in (int, float) for part in value)
    return type(value) in (int, float) and not (name in SWITCHES and value == 0)


# The user's names ------------------------------------------------------------------------------------------


class Names:
    """Watches which names the user's functions read while a call runs, and what they stand for.

    Every guard says: this dictionary has this object (or an equal number) under this key.
    """

    def __init__(self, tracer: Any, function: Any) -> None:
        self.tracer = tracer
        self.functions: dict[CodeType, FunctionType] = {}  # those that were there before the call
        self.register(function)
        self.guards: dict[tuple[int, Any], tuple[Any, Any, Any]] = {}
        self.cells: dict[int, tuple[CellType, Any]] = {}
        self.seen: set[tuple] = set()
        self.found_cells: dict[CodeType, dict[str, CellType]] = {}

    def __enter__(self) -> Names:
        self.dice = other_generators()
        self.before = sys.getprofile()
        self.tracer.hook = self.notice
        sys.setprofile(self.notice)
        return self

    def __exit__(self, *exception: object) -> None:
        self.tracer.hook = None
        sys.setprofile(None)
        if self.before is None or callable(self.before):
            sys.setprofile(self.before)
        else:
            self.before.enable()  # cProfile of Python 3.11, which getprofile gives but setprofile does not take

    def notice(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            if is_library(code.co_filename):
                if (code is MODULE_CALL or code is MODULE_FORWARD) and self.tracer.reason is None:
                    self.watch_module(frame.f_locals["self"])
            elif self.tracer.reason is None and not is_own(frame):
                self.read(code, frame)
        elif event == "c_call" and argument is print and not is_library(frame.f_code.co_filename):
            self.tracer.refuse("print")

    def watch_module(self, module: Module) -> None:
        if id(module) not in self.tracer.watched:
            for part in module.modules():
                self.tracer.watch(part, module_facts)

    def read(self, code: CodeType, frame: FrameType) -> None:
        """Notes what the names in a function stand for, as far as they are not its own variables."""
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        key = (code, id(first), id(frame.f_globals))
        if key in self.seen:
            return
        self.seen.add(key)
        cells: dict[str, CellType] | None = None
        for kind, name, path in chains(code):
            if kind == "global":
                if name in frame.f_globals:
                    self.follow(frame.f_globals, name, path)
            elif kind == "free":
                if cells is None:
                    cells = self.cells_behind(code)
                if name in cells and (code in self.functions or is_plain(contents(cells[name]))):
                    self.follow_cell(cells[name], path)
            elif name in frame.f_locals and path:
                self.enter(frame.f_locals[name], path)

    def cells_behind(self, code: CodeType) -> dict[str, CellType]:
        if code not in self.found_cells:
            self.found_cells[code] = cells_of(self.functions.get(code) or function_of(code))
        return self.found_cells[code]

    def follow(self, table: Any, name: Any, path: tuple) -> None:
        value = table[name]
        if isinstance(value, Tensor) and id(value._data) not in self.tracer.existing:
            return  # made by this very call
        self.register(value)
        if not is_fixed(value):
            self.guards.setdefault((id(table), name), (table, name, value))
        self.enter(value, path)

    def register(self, function: Any) -> None:
        function = getattr(function, "__func__", function)
        while isinstance(function, FunctionType) and function.__code__ not in self.functions:
            self.functions[function.__code__] = function
            function = getattr(function, "__wrapped__", None)

    def follow_cell(self, cell: CellType, path: tuple) -> None:
        value = contents(cell)
        self.register(value)
        if value is not MISSING and not is_fixed(value):
            self.cells.setdefault(id(cell), (cell, value))
        self.enter(value, path)

    def enter(self, value: Any, path: tuple) -> None:
        """Goes on along attributes and items, to the end or to something that watches over itself."""
        if isinstance(value, Module):
            self.watch_module(value)
            return
        if isinstance(value, (Tensor, Optimizer)) or not path:
            return
        kind, key = path[0]
        if kind == "attribute":
            self.enter_attribute(value, key, path[1:])
        elif has_item(value, key):
            self.follow(value, key, path[1:])

    def enter_attribute(self, value: Any, name: str, path: tuple) -> None:
        """An attribute of the object's own, or a plain one of its class that none of its own hides."""
        if isinstance(value, ModuleType) and is_library(getattr(value, "__file__", None) or "<frozen"):
            return
        table = getattr(value, "__dict__", None)
        if isinstance(table, dict) and name in table:
            self.follow(table, name, path)
            return
        owner = next((kind for kind in type(value).__mro__ if name in vars(kind)), None)
        if owner is None or isinstance(value, type) or not is_plain(found := vars(owner)[name]):
            return
        self.guards[id(owner), name] = (Attributes(owner), name, found)
        if isinstance(table, dict):
            self.guards[id(table), name] = (table, name, MISSING)

    def changed(self) -> str | None:
        """The first name that the call itself has given another meaning, or another generator that it has used."""
        if self.dice != other_generators():
            return "the state of a generator of Python's or NumPy's"
        for table, name, value in self.guards.values():
            if not holds(table, name, value):
                return str(name)
        for cell, value in self.cells.values():
            if not same(contents(cell), value):
                return "a variable of an enclosing function"
        return None


class Attributes(dict):
    """The attributes of a class, as a dictionary to look into."""

    def __init__(self, owner: type) -> None:
        self.owner = owner

    def __getitem__(self, name: str) -> Any:
        return vars(self.owner)[name]

    def __contains__(self, name: object) -> bool:
        return name in vars(self.owner)

    def get(self, name: str, default: Any = None) -> Any:
        return vars(self.owner).get(name, default)


def has_item(value: Any, key: Any) -> bool:
    if isinstance(value, dict):
        return key in value
    return isinstance(value, (list, tuple)) and isinstance(key, int) and key < len(value)


def same(value: Any, expected: Any) -> bool:
    if value is expected:
        return True
    return is_plain(expected) and type(value) is type(expected) and value == expected


def holds(table: Any, name: Any, expected: Any) -> bool:
    try:
        return same(table[name], expected)
    except (KeyError, IndexError):
        return expected is MISSING


def is_fixed(value: Any) -> bool:
    """What programs do not rebind: modules, classes, functions."""
    return isinstance(value, (ModuleType, type, FunctionType, MethodType)) or (
        callable(value) and type(value).__name__ == "builtin_function_or_method"
    )


@functools.lru_cache(maxsize=4096)
def is_library(filename: str) -> bool:
    """Whether code is cleargrad's own, of what it runs on, or Python's: nothing there is the user's to change."""
    return filename.startswith(OWN) or (filename.startswith(PYTHON) and "site-packages" not in filename)


def other_generators() -> tuple:
    """The states of the generators of random numbers that are not tensors' own."""
    python, numpy = sys.modules.get("random"), sys.modules.get("numpy.random")
    found = None if python is None else python.getstate()
    if numpy is None:
        return found, None
    kind, words, *rest = numpy.get_state()
    return found, (kind, words.tobytes(), rest)


def is_own(frame: FrameType) -> bool:
    """Whether code without a file, such as a dataclass's, belongs to cleargrad."""
    return str(frame.f_globals.get("__name__")).startswith("cleargrad.")


def contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def function_of(code: CodeType) -> FunctionType | None:
    """The function with this code, if there is only one."""
    functions = [f for f in gc.get_referrers(code) if isinstance(f, FunctionType) and f.__code__ is code]
    return functions[0] if len(functions) == 1 else None


def cells_of(function: FunctionType | None) -> dict[str, CellType]:
    """The variables that a function has from those around it."""
    if function is None or not function.__closure__:
        return {}
    return dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))


@functools.lru_cache(maxsize=1024)
def chains(code: CodeType) -> tuple[tuple[str, str, tuple], ...]:
    """What a function's code reads: roots (global, free or argument names) with attributes and items behind."""
    return tuple(dict.fromkeys(read_chains(code)))


ROOTS = {
    "LOAD_GLOBAL": "global",
    "LOAD_NAME": "global",
    "LOAD_DEREF": "free",
    "LOAD_CLASSDEREF": "free",
    "LOAD_FAST": "argument",
    "LOAD_FAST_BORROW": "argument",
}


def read_chains(code: CodeType) -> Iterator[tuple[str, str, tuple]]:
    arguments = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    kind = name = constant = None
    path: list[tuple[str, Any]] = []
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and kind is not None:
            path.append(("attribute", step.argval))
            constant = None
            continue
        if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and kind is not None and constant is None:
            constant = (step.argval,)
            continue
        if step.opname == "BINARY_SUBSCR" and constant is not None:
            path.append(("item", constant[0]))
            constant = None
            continue
        if step.opname in ("CACHE", "EXTENDED_ARG", "NOP", "PUSH_NULL", "RESUME"):
            continue
        if kind is not None and name is not None:
            yield kind, name, tuple(path)
        kind = name = constant = None
        path = []
        root = ROOTS.get(step.opname)
        if root == "argument" and step.argval not in arguments:
            root = None
        if root == "free" and step.argval not in code.co_freevars:
            root = None
        if root is not None:
            kind, name = root, step.argval
    if kind is not None and name is not None:
        yield kind, name, tuple(path)
