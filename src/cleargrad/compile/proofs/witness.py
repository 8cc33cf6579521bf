"""Proof that Python would decide the same again: a witness stands beside one call of a compiled function.

The call is made by the function's rewritten copy (compile/proofs/rewriting.py). What it reads from outside
becomes a guard (compile/proofs/reading.py), functions of the user's that it calls are rewritten in turn, and
ops are called with what is proven. Whatever the witness does not know, an object that is changed, a builtin, a
file, ends the proof: then Python runs at every call. Read next: compile/proofs/shortcut.py.
"""

from __future__ import annotations

import builtins
import inspect
import math
import types
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.random  # the generator's state needs it, and a call may be short of memory

from cleargrad.autograd.node import AccumulateGrad
from cleargrad.compile.known_pass import KnownPass
from cleargrad.compile.proofs.guards import is_library
from cleargrad.compile.proofs.optimizer_facts import Options, States, is_followed
from cleargrad.compile.proofs.reading import (
    CONTEXTS,
    MISSING,
    SCALARS,
    TENSORS,
    VIEWS,
    Reader,
    in_classes,
    uncover,
)
from cleargrad.compile.proofs.rewriting import Unproven, rewritten
from cleargrad.compile.sides import HERE
from cleargrad.core.generator import default_generator
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor
from cleargrad.errors import user_place
from cleargrad.nn.module import Module
from cleargrad.nn.modules.container import NumberedModules
from cleargrad.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_
from cleargrad.ops.op import Op
from cleargrad.optim.optimizer import Optimizer
from cleargrad.optim.rule import RuleOptimizer

OWN_METHODS = {
    "size", "dim", "ndimension", "numel", "nelement", "stride", "element_size", "is_contiguous",
    "is_floating_point", "is_complex", "get_device", "detach", "__len__",
}  # fmt: skip
CHANGING = {"set_", "resize_", "resize_as_", "swap", "requires_grad_", "detach_", "type"}
PURE = {
    len, range, min, max, abs, int, float, bool, tuple, list, dict, sum, zip, enumerate, reversed, isinstance,
    round, divmod, sorted, all, any, str, slice, pow, type,
    *[each for each in vars(math).values() if callable(each)],
}  # fmt: skip
# Those that take tensors without a look at their elements.
OF_TENSORS = {tuple, list, dict, sum, zip, enumerate, reversed, isinstance, abs, len, type}
PURE_IDS = set(map(id, PURE))
KEEPING = (tuple, list, zip, enumerate, reversed)  # hand on what they are given, and do nothing with it
METHODS: dict[Any, tuple] = {
    dict: ("get", "items", "keys", "values"),
    list: ("index", "count"),
    tuple: ("index", "count"),
}
# What rewritten functions ask of a witness.
HOOKS = (
    "added", "attribute", "callee", "context", "cut", "each", "is_same", "item", "mapping", "number", "parts",
    "plain", "shown", "truth", "value",
)  # fmt: skip


class Scope:
    """What a rewritten function calls `__witness__`: the witness, and where the function's names are."""

    def __init__(self, witness: Witness, function: types.FunctionType) -> None:
        self.witness, self.function = witness, function
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        for hook in HOOKS:
            setattr(self, hook, getattr(witness, hook))

    def name(self, name: str) -> Any:
        """A name from outside of the function."""
        witness, function = self.witness, self.function
        if name in self.cells:
            cell = self.cells[name]
            try:
                value = cell.cell_contents
            except ValueError:
                text = f"cannot access free variable {name!r} where it is not associated with a value"
                raise NameError(text, name=name) from None
            return witness.read(lambda: f"{witness.kept(cell)}.cell_contents", value)
        if witness.why is None and {type(function.__globals__), type(function.__builtins__)} != {dict}:  # type: ignore[attr-defined]
            witness.fail("its names are kept in a dictionary of another kind")
        if name in function.__globals__:
            value = function.__globals__[name]
            return witness.read(lambda: f"{witness.kept(function.__globals__)}[{name!r}]", value)
        value = (
            function.__builtins__[name] if name in function.__builtins__ else getattr(builtins, name, MISSING)
        )  # type: ignore[attr-defined]
        if value is MISSING:
            raise NameError(f"name {name!r} is not defined", name=name)
        if witness.why is None:
            witness.guards.refuse(f"{name!r} in {witness.kept(function.__globals__)}")
        return witness.read(lambda: f"{witness.kept(function.__builtins__)}[{name!r}]", value)  # type: ignore[attr-defined]


class Witness(Reader):
    """Sees one call, and knows what it depended on."""

    def __init__(self, waiter: Any) -> None:
        super().__init__()
        self.waiter = waiter
        # Runs that have ended: program, sources, numbers, what was made, why and where they ended.
        self.runs: list[tuple] = []
        self.seen: dict[
            int, tuple[Op, Tensor, dict, int]
        ] = {}  # views of what is there, by id: how they are made
        self.draws: list[tuple[Callable, tuple, dict, Tensor]] = []  # of random numbers, in order
        self.aliases: list[tuple[Tensor, Tensor]] = []  # of what was computed, and what they are aliases of
        self.settled: dict[int, Tensor] = {}  # leaves whose gradients are what this call made of them
        self.cleared = False  # whether gradients were taken away
        self.optimizers: list[Optimizer] = []  # that made a step
        self.lists: list[tuple[Any, list[Tensor]]] = []  # iterators of parameters, and what they go through

    # Calling -----------------------------------------------------------------------------------------------

    def whole(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The call that is to be proven."""
        state, grad, guards = default_generator.get_state(), mode.grad, self.guards
        for each in TENSORS:
            guards.tag(each)
        names = f"list(kwargs) != {list(kwargs)}" if kwargs else "kwargs"
        guards.refuse(f"len(args) != {len(args)} or {names}")
        for k, value in enumerate(args):
            self.read(lambda k=k: f"args[{k}]", value, given=True)  # type: ignore[misc]
        for name, value in kwargs.items():
            self.read(lambda name=name: f"kwargs[{name!r}]", value, given=True)  # type: ignore[misc]
        owner = getattr(function, "__self__", None)
        for thing in (owner, getattr(function, "__func__", function)):
            if thing is not None:
                guards.note(self.kept(thing), thing)
        result = self.call(function, *args, **kwargs)
        if self.why is None and not self.draws_all(state):
            self.fail("random numbers are drawn in a way of its own")
        if mode.grad is not grad:
            self.fail("it leaves gradients switched off or on")
        return result

    def callee(self, function: Any) -> Any:
        """What stands in the place of a function: its copy, or the witness, or itself where nothing is proven.

        Whatever is not looked into is called by the copy of the function that calls it, as it stands in the text:
        it may ask who calls it, as logging does.
        """
        if self.why is not None:
            return function
        try:
            if self.is_followed_by(function):
                return partial(self.call, function)
            if type(function) is types.FunctionType:
                return self.copied(function)
            if type(function) is types.MethodType and type(function.__func__) is types.FunctionType:
                return types.MethodType(self.copied(function.__func__), function.__self__)
        except Unproven as reason:
            self.fail(reason.reason)
            return function
        self.fail(f"{name_of(function)} is called")
        return function

    def is_followed_by(self, function: Any) -> bool:
        """Whether the witness knows what a function does without its text."""
        kind = type(function)
        if kind is types.MethodType:
            thing, inner = function.__self__, function.__func__
            if isinstance(thing, Tensor) or inner in (Module.parameters, Module.__call__):
                return True
            return isinstance(thing, Optimizer) and inner in (Optimizer.zero_grad, RuleOptimizer.step)
        if kind is types.FunctionType:
            own = is_library(function) and "tracks" in vars(function)
            return own or is_op(function) or function in (clip_grad_norm_, clip_grad_value_)
        if isinstance(function, Module) or is_compiled(function):
            return True
        if kind is types.BuiltinMethodType and type(function.__self__) in (*METHODS, str, OrderedDict):
            return True
        return id(function) in PURE_IDS or function is getattr or any(function is each for each in CONTEXTS)

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.why is not None:
            return function(*args, **kwargs)
        kind = type(function)
        try:
            if kind is types.MethodType:
                return self.call_method(function.__self__, function.__func__, args, kwargs)
            if kind is types.FunctionType:
                return self.call_function(function, args, kwargs)
            if isinstance(function, Module):
                return self.call_module(function, args, kwargs)
            if kind is types.BuiltinMethodType and type(function.__self__) in (*METHODS, str, OrderedDict):
                return self.call_of_container(function, args, kwargs)
            if id(function) in PURE_IDS:
                return self.call_pure(function, args, kwargs)
            if function is getattr and len(args) == 2 and type(args[1]) is str:
                return self.attribute(*args)
            if any(function is each for each in CONTEXTS):
                self.check(args, tensors=False)
                return function(*args, **kwargs)
            if is_compiled(function) and self.guards.is_known(function):
                name = self.guards.name_of(function)
                self.read(lambda: f"{name}.function", function.function)
                return self.call(function.function, *args, **kwargs)
        except Unproven as reason:
            self.fail(reason.reason)
            return function(*args, **kwargs)
        self.fail(f"{name_of(function)} is called")
        return function(*args, **kwargs)

    def call_pure(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A builtin that only computes."""
        if function is isinstance:
            kinds = args[1] if type(args[1]) is tuple else (args[1],)
            if any(type(each) is not type for each in kinds):
                raise Unproven("isinstance is asked about a class that may answer itself")
            if in_classes(type(args[0]), "__class__") is not vars(object)["__class__"]:
                raise Unproven("an object says itself of which class it is")
            if self.guards.is_known(args[0]):
                self.guards.keep_class(args[0])
        elif function is type:
            if len(args) != 1 or kwargs:
                raise Unproven("a class is made")
            if self.guards.is_known(args[0]):
                name = self.guards.name_of(args[0])
                return self.read(lambda: f"type({name})", type(args[0]))
        elif function is len and isinstance(args[0], NumberedModules):
            self.each(args[0])
        else:
            tensors = function in OF_TENSORS
            lazy = [type(each) in VIEWS or type(each) is types.GeneratorType for each in args]
            self.check([each for each, late in zip(args, lazy) if not late], tensors)
            self.check(kwargs.values(), tensors)
            for each in [each for each, late in zip(args, lazy) if late]:
                self.each(each)
            if function not in KEEPING and self.why is None:
                look = self.plain if tensors else self.number
                args = tuple(map(look, each) if late else each for each, late in zip(args, lazy))
        result = function(*args, **kwargs)
        if type(result) in VIEWS:
            self.own.append(result)
        return result

    def call_of_container(self, method: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        allowed = METHODS.get(dict if type(method.__self__) is OrderedDict else type(method.__self__))
        if allowed is not None and method.__name__ not in allowed:
            raise Unproven(f"{method.__name__} of a {type(method.__self__).__name__} is called")
        self.check([*args, *kwargs.values()], tensors=type(method.__self__) is dict)
        if type(method.__self__) in (list, tuple):
            self.check(method.__self__)  # it compares them
        result = method(*args, **kwargs)
        if type(result) in VIEWS:
            self.own.append(result)
        return result

    def call_method(self, thing: Any, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if isinstance(thing, Tensor) and type(thing) in TENSORS:
            if function is Tensor.backward:
                return self.call_backward(thing, args, kwargs)
            if function is Tensor.detach and self.is_computed(thing):
                return self.detached(thing)
            name = getattr(function, "__name__", "")
            own = is_library(function) and function.__module__ == "cleargrad.tensor" and name in OWN_METHODS
            if not own and not is_op(function):
                raise Unproven(f"{name} of a tensor is called")
            return self.call_op(function, (thing, *args), kwargs)
        if isinstance(thing, Optimizer) and is_library(type(thing)):
            if function is Optimizer.zero_grad:
                return self.clear_gradients(thing, args, kwargs)
            if function is RuleOptimizer.step:
                return self.make_step(thing, args, kwargs)
        if isinstance(thing, Module) and function is Module.parameters:
            return self.parameters(thing, args, kwargs)
        if isinstance(thing, Module) and function is Module.__call__:
            return self.call_module(thing, args, kwargs)
        if type(function) is not types.FunctionType:
            raise Unproven(f"{name_of(function)} is called")
        return self.call_function(function, (thing, *args), kwargs)

    def call_function(self, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]) -> Any:
        if function in (clip_grad_norm_, clip_grad_value_):
            return self.clip(function, args, kwargs)
        tracked = vars(function).get("tracks") if is_library(function) else None
        if tracked is not None:  # a scheduler stands before the optimizer's step
            optimizer, step = tracked
            if optimizer() is not None and step is RuleOptimizer.step:
                return self.make_step(optimizer(), args, kwargs, function)
        if is_op(function):
            return self.call_op(function, args, kwargs)
        return self.call_rewritten(function, args, kwargs)

    def call_rewritten(self, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self.copied(function)(*args, **kwargs)

    def copied(self, function: types.FunctionType) -> types.FunctionType:
        """A function whose text is known: the witness goes with its copy."""
        code = rewritten(function)
        if self.guards.is_known(function):
            self.guard_function(function)
        elif not is_library(function):
            raise Unproven(f"{name_of(function)} was made in the call")
        copy = types.FunctionType(
            code,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            (types.CellType(Scope(self, function)),) if code.co_freevars else (),
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        return copy

    def guard_function(self, function: types.FunctionType) -> None:
        """A function may be given other code and other defaults."""
        name, defaults, named = self.guards.name_of(function), function.__defaults__, function.__kwdefaults__
        self.guards.refuse(f"{name}.__code__ is not {self.kept(function.__code__)}")
        if all(type(each) in SCALARS for each in (*(defaults or ()), *(named or {}).values())) and not named:
            self.guards.refuse(f"{name}.__defaults__ is not {self.kept(defaults)} or {name}.__kwdefaults__")
        else:
            self.read(lambda: f"{name}.__defaults__", defaults)
            self.read(lambda: f"{name}.__kwdefaults__", named)

    def call_module(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        kind = type(module)
        if not self.guards.is_known(module) or kind.__call__ is not Module.__call__ or module._hooked:
            raise Unproven(f"{kind.__name__} is called in a way of its own")
        name = self.guards.name_of(module)
        self.guards.keep_class(module)
        self.guards.refuse(f"type({name}).__call__ is not {self.kept(Module.__call__)} or {name}._hooked")
        forward = self.attribute(module, "forward")
        if self.why is None and type(forward) is types.MethodType:
            function: Any = forward.__func__
            try:
                rewritten(function)
            except Unproven:
                if not is_library(function):
                    raise
                return self.call_opaque(module, forward, args, kwargs)
            return self.call_rewritten(function, (module, *args), kwargs)
        return self.call(forward, *args, **kwargs)

    def call_opaque(self, module: Module, forward: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A module of cleargrad's own that is not looked into: all that it consists of is guarded."""
        for part in module.modules():
            if not is_library(type(part)):
                raise Unproven(f"{type(module).__name__} holds modules of the user's")
        name = self.guards.name_of(module)
        self.read(lambda: f"{name}.__dict__", module.__dict__)
        for part in module.modules():
            if part is not module and self.why is None:
                inner = self.guards.name_of(part)
                self.guards.keep_class(part)
                self.read(lambda inner=inner: f"{inner}.__dict__", part.__dict__)  # type: ignore[misc]
                self.guards.refuse(f"{inner}._hooked")
        return self.call_op(forward, args, kwargs)

    def call_op(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """A function of cleargrad's own, which depends on its arguments alone."""
        self.check([*args, *kwargs.values()])
        return function(*args, **kwargs)

    # What changes more than tensors ------------------------------------------------------------------------

    def call_backward(self, root: Tensor, args: tuple, kwargs: dict[str, Any]) -> Any:
        if args or any(kwargs.values()):
            raise Unproven("backward is called with arguments")
        run = self.waiter.run
        leaves = [x for x in run.tensors if x is not None and type(x._edge) is AccumulateGrad]
        filled = {id(leaf) for leaf in leaves if leaf._grad is not None}
        result = root.backward()
        known = run.plans[-1] if run is self.waiter.run and run.plans else None
        if type(known) is not KnownPass:
            raise_later = "a backward pass is walked, which may call hooks"
            self.fail(raise_later)
            return result
        for slot in known.leaves:
            leaf = run.tensors[slot]
            if id(leaf) in filled and id(leaf) not in self.settled:
                self.fail("a backward pass adds to gradients that are there")
            self.begin_gradient(leaf)
            self.settled[id(leaf)] = leaf
        return result

    def is_computed(self, tensor: Tensor) -> bool:
        """Whether a tensor was made in this call, and has its value."""
        return any(tensor is each for run in self.runs for _, each in run[3])

    def detached(self, tensor: Tensor) -> Tensor:
        """The same memory outside of the graph; nobody looks at it for that."""
        uncover(tensor)
        alias = tensor.detach()
        self.aliases.append((alias, tensor))
        self.probe(tensor)
        self.probe(alias)
        return alias

    def begin_gradient(self, leaf: Tensor) -> None:
        """A call whose own work on a gradient has not begun relies on what the gradient was before."""
        if id(leaf) in self.settled or self.why is not None:
            return
        if not self.guards.is_known(leaf):
            self.fail("a parameter takes part that nothing leads to")
            return
        name = self.guards.name_of(leaf)
        self.guards.refuse(f"{name}._grad is not None")

    def existing_gradient(self, parameter: Tensor) -> None:
        """The gradient of a parameter is read."""
        if id(parameter) not in self.settled:
            name = self.guards.name_of(parameter)
            self.read(lambda: f"{name}._grad", parameter._grad, given=True)

    def clear_gradients(self, optimizer: Optimizer, args: tuple, kwargs: dict[str, Any]) -> Any:
        if args not in ((), (True,)) or kwargs not in ({}, {"set_to_none": True}):
            raise Unproven("zero_grad keeps gradients as zeros")
        for parameter in self.parameters_of(optimizer):
            self.settled[id(parameter)] = parameter
        self.cleared = True
        return optimizer.zero_grad()

    def parameters_of(self, optimizer: Optimizer) -> list[Tensor]:
        """The parameters of all groups, which must stay these."""
        name = self.guards.name_of(optimizer)
        groups = self.guards.variable(f"{name}.param_groups")
        self.guards.refuse(f"len({groups}) != {len(optimizer.param_groups)}")
        found = []
        for k, group in enumerate(optimizer.param_groups):
            self.read(lambda k=k: f"{groups}[{k}]['params']", group["params"])  # type: ignore[misc]
            found += group["params"]
        return found

    def make_step(self, optimizer: Any, args: tuple, kwargs: dict, tracked: Any = None) -> Any:
        if args or kwargs:
            raise Unproven("an optimizer's step is given a closure")
        if is_followed(optimizer):
            raise Unproven("an optimizer's step has hooks")
        if not self.guards.is_known(optimizer):
            if tracked is None or not self.guards.is_known(tracked):
                raise Unproven("an optimizer was made in the call")
            owner = f"{self.guards.name_of(tracked)}.tracks[0]()"
            self.read(lambda: owner, optimizer)
        for parameter in self.parameters_of(optimizer):
            self.existing_gradient(parameter)
        name = self.guards.name_of(optimizer)
        for k, group in enumerate(optimizer.param_groups):
            here = self.guards.variable(f"{name}.param_groups[{k}]")
            self.guards.refuse(f"not {self.kept(Options(optimizer, group))}({here})")
        recorded = optimizer.defaults.get("differentiable")
        self.read(lambda: f"{name}.defaults.get('differentiable')", recorded)
        states = States(optimizer)
        self.guards.refuse(f"not {self.kept(states)}({name})")
        for tensor in states.tensors:
            self.guards.same.append(tensor)
            self.guards.lasting.append(tensor)
            self.guards.found.append(tensor)
        self.cover()
        self.optimizers.append(optimizer)
        return optimizer.step() if tracked is None else tracked()

    def parameters(self, module: Module, args: tuple, kwargs: dict[str, Any]) -> Any:
        if args or kwargs:
            raise Unproven("some parameters of a module are asked for")
        for part in module.modules():
            name = self.guards.name_of(part)
            self.guards.keep_class(part)
            self.read(lambda name=name: f"{name}._parameters", part._parameters)  # type: ignore[misc]
            self.read(lambda name=name: f"{name}._modules", part._modules)  # type: ignore[misc]
            if self.why is not None:
                break
        found = module.parameters()
        self.own.append(found)
        self.lists.append((found, list(module.parameters())))
        return found

    def clip(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        targets: Any = args[0] if args else kwargs.get("parameters")
        whole = next((each for iterator, each in self.lists if iterator is targets), None)
        if whole is None:
            self.check([targets])
        elif inspect.getgeneratorstate(targets) == inspect.GEN_CREATED:
            targets = whole
        self.check([*args[1:], *[value for name, value in kwargs.items() if name != "parameters"]])
        if type(targets) not in (list, tuple) or kwargs.get("error_if_nonfinite"):
            raise Unproven("clipping looks at values, or gets something else than a list of parameters")
        for parameter in targets:
            self.existing_gradient(parameter)
        return function(*args, **kwargs)

    # What the waiter tells ---------------------------------------------------------------------------------

    def saw(self, op: Op, source: Tensor, attrs: dict[str, Any], views: Any) -> None:
        """Views of memory that is there were made."""
        if self.why is not None or (id(source) not in self.before and id(source) not in self.seen):
            return
        for number, view in enumerate(views if isinstance(views, (tuple, list)) else (views,)):
            self.seen[id(view)] = (op, source, attrs, number)
            self.own.append(view)
            self.probe(view)

    def drew(self, op: Op, operands: tuple, attrs: dict[str, Any], drawn: Any) -> None:
        """Random numbers were drawn."""
        if self.why is not None:
            return
        plain = all(x is None or type(x) in SCALARS for x in operands) and isinstance(drawn, Tensor)
        if not plain or attrs.get("stream") is not default_generator:
            self.fail("random numbers are drawn that depend on values")
            return
        self.draws.append((op.run, operands, attrs, drawn))
        self.probe(drawn)

    def draws_all(self, state: np.ndarray) -> bool:
        """Whether the same draws, from the state that the call found, lead to the state that it left."""
        after = default_generator.get_state()
        default_generator.set_state(state)
        for run, operands, attrs, _ in self.draws:
            run(*operands, **attrs)
        same = np.array_equal(default_generator.get_state(), after)
        default_generator.set_state(after)
        return same

    def ran(self, run: Any, ending: Any, why: str) -> None:
        """A run has ended, by a program or without one."""
        if self.why is not None:
            return
        if ending is None:
            self.fail("its calls are made one by one as yet")
        if run.side is not HERE:
            self.fail("values lie on another device")
        made = [(slot, tensor) for slot, ref in run.made if (tensor := ref()) is not None]
        self.runs.append((ending, list(run.tensors), list(run.numbers), made, (why, user_place())))
        for tensor in (*run.tensors, *[tensor for _, tensor in made]):
            if tensor is not None and (id(tensor) in self.before or id(tensor) in self.seen):
                self.probe(tensor)
        for _, tensor in made:
            self.probe(tensor)


def is_op(function: Any) -> bool:
    """Whether a function does nothing but call ops."""
    module = str(getattr(function, "__module__", None))
    if not module.startswith(("cleargrad.ops.", "cleargrad.nn.functional")) or not is_library(function):
        return False
    return not module.startswith("cleargrad.ops.random") and function.__name__ not in CHANGING


def is_compiled(function: Any) -> bool:
    return is_library(type(function)) and type(function).__name__ == "Compiled"


def name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
