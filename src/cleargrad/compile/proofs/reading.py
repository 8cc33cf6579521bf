"""What a function reads and decides by: the half of a witness that watches, and turns every read into a guard.

Attributes, items, conditions and loops of a rewritten function end up here. Of objects from outside it must be
known how Python finds what is asked for; numbers, text and containers are plain; all else fails the proof.
Tensors from outside have a probe in the place of their values, so that whoever looks is seen. Read next:
compile/proofs/witness.py.
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from cleargrad.autograd.modes import enable_grad, no_grad
from cleargrad.compile.proofs.guards import Guards, is_library
from cleargrad.compile.proofs.rewriting import WITNESS, Unproven
from cleargrad.compile.sides import HERE
from cleargrad.core.device import device
from cleargrad.core.dtype import dtype
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor, value_of, wrap
from cleargrad.errors import Place, user_place
from cleargrad.nn.module import Module
from cleargrad.nn.modules.container import NumberedModules
from cleargrad.nn.parameter import Buffer, Parameter

MISSING = object()
TENSORS = (Tensor, Parameter, Buffer)  # subclasses may do anything
SCALARS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), dtype, device, slice, range)
CONTAINERS = (tuple, list, dict, OrderedDict, Size, set, frozenset)
VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()), zip, enumerate, reversed)
CONTEXTS = (no_grad, enable_grad)
# What tensors tell of themselves without a look at their elements, and views of them.
FACTS = {
    "shape", "dtype", "device", "ndim", "layout", "itemsize", "nbytes", "requires_grad", "is_cuda", "is_sparse",
    "T", "mT", "H", "mH", "real", "imag",
}  # fmt: skip
TABLES = ("_parameters", "_modules", "_buffers")  # of a module, in the order in which names are looked up
SINGLE = (type(None), bool, type(Ellipsis), dtype)  # of which no two are alike


class Probe:
    """Stands in the place of a value that is there: whoever looks is seen."""

    probe = True
    side = HERE
    place = HERE.place

    def __init__(self, witness: Reader) -> None:
        self.witness = witness

    def look(self, tensor: Tensor) -> None:
        self.witness.fail("a value is looked at")
        uncover(tensor)

    def twin(self, tensor: Tensor) -> Tensor:
        """Another tensor for the same value, as of one that waits."""
        return wrap(tensor._data)


def uncover(tensor: Tensor) -> None:
    if type(getattr(tensor, "_wait", None)) is Probe:
        tensor._data = tensor._form
        del tensor._wait


class Reader:
    """Sees what a call reads and decides by, and says when that is not understood."""

    def __init__(self) -> None:
        self.guards = Guards()
        self.why: str | None = None  # what cannot be proven
        self.place: Place | None = None
        self.keeps: dict[int, str] = {}  # names of things that guards keep, by id
        self.probes = Probe(self)
        self.probed: list[Tensor] = []
        # Of tensors from outside, by id: version, the place of the last change, the edge, memory.
        self.before: dict[int, tuple] = {}
        self.own: list[Any] = []  # iterators that were made by what is proven

    def fail(self, why: str) -> None:
        if self.why is None:
            self.why, self.place = why, user_place()

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call of something that is not an op; properties need it."""
        raise NotImplementedError

    # Reading -----------------------------------------------------------------------------------------------

    def kept(self, thing: Any) -> str:
        name = self.keeps.get(id(thing))
        if name is None:
            name = self.keeps[id(thing)] = self.guards.hold(thing)
        return name

    def read(self, text: Callable[[], str], value: Any, given: bool = False) -> Any:
        """Something from outside was read."""
        if self.why is None:
            try:
                self.guards.read(text(), value, given)
            except Unproven as reason:
                self.fail(reason.reason)
            except RecursionError:
                self.fail("a container holds itself")
            self.cover()
        return value

    def cover(self) -> None:
        """Has looks at tensors from outside be seen."""
        guards = self.guards
        for tensor in (*guards.lasting, *guards.given):
            if id(tensor) not in self.before:
                cell = tensor._ver
                version, place = (0, None) if cell is None else (cell[1], cell[2])
                self.before[id(tensor)] = (version, place, tensor._edge, tensor._form)
                self.probe(tensor)

    def probe(self, tensor: Tensor) -> None:
        try:
            value_of(tensor)
        except AttributeError:
            return  # it waits
        self.probed.append(tensor)
        tensor._wait, tensor._slot = self.probes, -1
        del tensor._data

    def let_go(self) -> None:
        """All tensors have their values again."""
        for tensor in self.probed:
            uncover(tensor)

    def attribute(self, thing: Any, name: str) -> Any:
        if self.why is None:
            try:
                return self.attribute_of(thing, name)
            except Unproven as reason:
                self.fail(reason.reason)
        return getattr(thing, name)

    def attribute_of(self, thing: Any, name: str) -> Any:
        kind = type(thing)
        if isinstance(thing, Tensor):
            if kind not in TENSORS or not (name in FACTS or callable(getattr(Tensor, name, None))):
                raise Unproven(f"{name} of a tensor is read")
            return getattr(thing, name)
        if kind in SCALARS or kind in CONTAINERS or is_result(thing):
            return getattr(thing, name)
        if not self.guards.is_known(thing):
            raise Unproven(f"an attribute of a {kind.__name__} is read that was made in the call")
        here = self.guards.name_of(thing)
        text = f"{here}.{name}"
        if isinstance(thing, types.ModuleType):
            if kind is not types.ModuleType or name not in vars(thing):
                raise Unproven(f"the module makes {name} up when it is asked")
            self.guards.refuse(f"type({here}) is not {self.kept(kind)}")
            text = f"{here}.__dict__[{name!r}]"
        elif isinstance(thing, type):
            found = in_classes(thing, name)
            made = hasattr(found, "__get__") and not isinstance(found, (staticmethod, types.FunctionType))
            if kind is not type or made or found is MISSING:
                raise Unproven(f"{name} of a class is read")
            self.guards.tag(thing)
            self.guards.tag(type(found))
        else:
            if kind.__getattribute__ is not object.__getattribute__:
                raise Unproven(f"{kind.__name__} has a __getattribute__ of its own")
            if type(in_classes(kind, "__dict__")) not in (types.GetSetDescriptorType, type(MISSING)):
                raise Unproven(f"{kind.__name__} has a __dict__ of its own")
            self.guards.keep_class(thing)
            found = in_classes(kind, name)
            self.guards.tag(type(found))
            if type(found) is property:
                if (
                    type(found.fget) is not types.FunctionType
                    or is_library(found.fget)
                    or type(kind) is not type
                ):
                    raise Unproven(f"{name} is a property")
                here = f"type({self.guards.name_of(thing)}).{name}"
                self.guards.refuse(f"{here} is not {self.kept(found)}")
                self.read(lambda: f"{here}.fget", found.fget)
                return self.call(types.MethodType(found.fget, thing))
            inside = name in getattr(thing, "__dict__", ())
            if type(found) is types.FunctionType and not inside:
                bound = getattr(thing, name)
                self.read(lambda: f"{text}.__func__", bound.__func__)
                return bound
            maker = in_classes(kind, "__getattr__")
            if found is MISSING and not inside:
                if maker is not Module.__getattr__:
                    raise Unproven(f"there is no attribute {name}, or it is made up")
                return self.registered(thing, name)
            if maker is not MISSING and maker is not Module.__getattr__:
                if not inside and type(found) is types.MemberDescriptorType:
                    raise Unproven(f"{name} may be made up when it is gone")
                if inside and found is MISSING:
                    text = f"{here}.__dict__[{name!r}]"
            if hasattr(found, "__get__") and not isinstance(
                found, (staticmethod, types.MemberDescriptorType, types.FunctionType)
            ):
                raise Unproven(f"{name} is a descriptor")
        return self.read(lambda: text, getattr(thing, name))

    def registered(self, module: Module, name: str) -> Any:
        """A parameter, buffer or module of a module, as Module.__getattr__ finds it, but quicker."""
        table = next((each for each in TABLES if name in vars(module)[each]), None)
        if table is None:
            raise Unproven(f"there is no attribute {name}")
        fields = self.guards.variable(f"{self.guards.name_of(module)}.__dict__")
        above = "".join(f" or {name!r} in {fields}[{each!r}]" for each in TABLES[: TABLES.index(table)])
        self.guards.refuse(f"{name!r} in {fields}{above}")
        return self.read(lambda: f"{fields}[{table!r}][{name!r}]", getattr(module, name))

    def item(self, thing: Any, key: Any) -> Any:
        if self.why is None:
            kind = type(thing)
            if kind in TENSORS:
                self.check([key])
            elif kind in (tuple, list, dict, OrderedDict, Size, str, bytes, range):
                self.check([key], tensors=False)
            elif isinstance(thing, tuple) and is_library(kind):
                pass  # several results, by name
            elif self.guards.is_known(thing) and isinstance(thing, Module) and is_library(kind.__getitem__):  # type: ignore[attr-defined]
                name = self.guards.name_of(thing)
                if type(key) in (int, str):
                    return self.read(lambda: f"{name}[{key!r}]", thing[key])  # type: ignore[index]
                self.fail(f"a part of a {kind.__name__} is taken")
            else:
                self.fail(f"an item of a {kind.__name__} is read")
        return thing[key]

    def cut(self, *bounds: Any) -> slice:
        if self.why is None:
            self.check(bounds, tensors=False)
        return slice(*bounds)

    # Deciding ----------------------------------------------------------------------------------------------

    def plain(self, value: Any) -> Any:
        """An operand of Python's operators."""
        if self.why is None:
            self.check([value])
        return value

    def truth(self, value: Any) -> Any:
        if self.why is None:
            kind = type(value)
            if kind in SCALARS or kind in CONTAINERS:
                return value
            plain = not (hasattr(kind, "__bool__") or hasattr(kind, "__len__"))
            if plain and self.guards.is_known(value):
                self.keep_class(value)
            else:
                self.fail(f"Python decides by a {kind.__name__}")
        return value

    def keep_class(self, value: Any) -> None:
        try:
            self.guards.keep_class(value)
        except Unproven as reason:
            self.fail(reason.reason)

    def is_same(self, one: Any, other: Any) -> bool:
        """`one is other`. Numbers, text and containers are compared by what they are, so they may be others."""
        if self.why is None and type(one) not in SINGLE and type(other) not in SINGLE:
            for each in (one, other):
                lasts = type(each) in TENSORS or self.guards.is_known(each)
                if not lasts or type(each) in CONTAINERS:
                    self.fail(f"it asks who a {type(each).__name__} is")
        return one is other

    def number(self, value: Any) -> Any:
        """One of several numbers that are compared."""
        if self.why is None:
            self.check([value], tensors=False)
        return value

    def shown(self, value: Any) -> Any:
        """What becomes text."""
        if self.why is None and type(value) not in SCALARS:
            self.fail(f"a {type(value).__name__} becomes text")
        return value

    def value(self, value: Any) -> Any:
        return value

    def mapping(self, values: Any) -> Any:
        """What is unpacked by name."""
        if self.why is None and type(values) not in (dict, OrderedDict):
            self.fail(f"a {type(values).__name__} is unpacked")
        return values

    def each(self, values: Any, shape: tuple = ()) -> Any:
        """What a loop goes through; its parts are unpacked, too, where they have a shape."""
        values = self.gone_through(values)
        if shape and self.why is None:
            return map(partial(self.parts, shape=shape), values)
        return values

    def gone_through(self, values: Any) -> Any:
        if self.why is not None:
            return values
        kind = type(values)
        if kind in CONTAINERS or kind in (range, str, bytes) or is_result(values):
            return values
        if kind in VIEWS and any(each is values for each in self.own):
            return values
        if kind is types.GeneratorType and (
            WITNESS in values.gi_code.co_freevars or any(each is values for each in self.own)
        ):
            return values
        numbered = isinstance(values, NumberedModules) and kind.__iter__ is NumberedModules.__iter__  # type: ignore[attr-defined]
        if numbered and self.guards.is_known(values):
            name = self.guards.name_of(values)
            self.keep_class(values)
            self.read(lambda: f"{name}._modules", values._modules)
            return values
        self.fail(f"a loop goes through a {kind.__name__}")
        return values

    def parts(self, values: Any, shape: tuple = ()) -> Any:
        """What is unpacked."""
        values = self.gone_through(values)
        if any(shape) and self.why is None:
            if type(values) not in (tuple, list):
                self.fail(f"the parts of a {type(values).__name__} are unpacked")
            elif len(values) == len(shape):
                for each, inner in zip(values, shape):
                    if inner:
                        self.parts(each, inner)
            else:
                self.fail("some parts of it are unpacked")
        return values

    def context(self, value: Any) -> Any:
        if type(value) not in CONTEXTS:
            self.fail(f"a with statement enters a {type(value).__name__}")
        return value

    def added(self, current: Any, value: Any) -> Any:
        """The right side of `x += value`."""
        if self.why is None:
            if type(current) not in TENSORS and type(current) not in SCALARS and type(current) is not tuple:
                self.fail(f"a {type(current).__name__} is changed")
            self.check([value])
        return value

    def check(self, values: Any, tensors: bool = True) -> None:
        """Whether values are of kinds whose operators do nothing but compute."""
        try:
            self.check_each(values, tensors)
        except RecursionError:
            self.fail("a container holds itself")

    def check_each(self, values: Any, tensors: bool) -> None:
        for value in values:
            kind = type(value)
            if kind in SCALARS:
                if kind is slice:
                    self.check_each((value.start, value.stop, value.step), False)
            elif kind in TENSORS:
                if not tensors:
                    self.fail("a tensor is used as a number")
            elif kind in (tuple, list, Size) or is_result(value):
                self.check_each(value, tensors)
            elif kind in (dict, OrderedDict):
                self.check_each([*value.keys(), *value.values()], tensors)
            else:
                self.fail(f"a {kind.__name__} is computed with")


def in_classes(kind: type, name: str) -> Any:
    """What a class and those that it is derived from have under a name."""
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), MISSING)


def is_result(value: Any) -> bool:
    """Whether a value is several results of an op, with names."""
    return isinstance(value, tuple) and is_library(type(value))
