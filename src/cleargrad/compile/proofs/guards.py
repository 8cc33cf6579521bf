"""Guards: what a function has read from outside, to be compared before its next call.

Every read is a line of a generated function that reads again, by the same way and in the same order, and gives up
where something else is found. Numbers and text are compared by what they are, containers by what they hold, all
other objects by who they are; of tensors that come with the call the layout counts. Read next:
compile/proofs/reading.py.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable
from typing import Any

from cleargrad.autograd.node import AccumulateGrad
from cleargrad.compile.proofs.classes import can_change, tag_of
from cleargrad.compile.proofs.rewriting import Unproven
from cleargrad.compile.traces import equal
from cleargrad.core.device import device
from cleargrad.core.dtype import dtype
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor

NUMBERS = (int, float, complex, str, bytes)
SINGLE = (type(None), bool, type(Ellipsis), type(NotImplemented))
MANY = 256  # things that a container may hold
MOST = 4000  # lines


class Guards:
    """Collects what was read, and writes the function that reads it again."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.held: dict[str, Any] = {"equal": equal, "Tensor": Tensor, "MISSING": object()}
        self.variables: dict[str, str] = {}  # by how they are read
        self.names: dict[int, str] = {}  # variables, by the ids of what was found
        self.found: list[Any] = []  # keeps all that was found, and so its id, while the proof is made
        self.same: list[Any] = []  # objects that must be the very same
        self.given: list[Tensor] = []  # tensors that come with the call: any of the same layout
        self.lasting: list[Tensor] = []  # tensors that must be the very same
        self.classes: dict[int, str] = {}  # what says that a class has changed, by its id

    def hold(self, thing: Any) -> str:
        """A name for something that the function keeps."""
        name = f"k{len(self.held)}"
        self.held[name] = thing
        return name

    def variable(self, text: str) -> str:
        """A variable for what an expression gives."""
        if len(self.lines) > MOST:
            raise Unproven("it reads too much")
        name = self.variables.get(text)
        if name is None:
            name = self.variables[text] = f"v{len(self.variables)}"
            self.lines.append(f"{name} = {text}")
        return name

    def refuse(self, condition: str) -> None:
        """A line that gives up."""
        line = f"if {condition}: return None"
        if line not in self.lines:
            self.lines.append(line)

    def read(self, text: str, value: Any, given: bool = False) -> Any:
        """Something was read, and it was this."""
        if text not in self.variables:
            self.compare(self.variable(text), value, given)
        return value

    def compare(self, name: str, value: Any, given: bool) -> None:
        """What a variable holds must be like a value."""
        kind = type(value)
        if kind in SINGLE or kind is dtype:
            self.refuse(f"{name} is not {self.hold(value)}")
        elif kind in NUMBERS:
            if kind is complex or (kind is float and (value == 0 or value != value)):
                self.refuse(f"not equal({name}, {self.hold(value)})")
            else:
                self.refuse(f"type({name}) is not {kind.__name__} or {name} != {self.hold(value)}")
        elif kind is device:
            self.refuse(f"type({name}) is not {self.hold(kind)} or {name} != {self.hold(value)}")
        elif kind in (range, slice):
            bounds = value.start, value.stop, value.step
            if any(type(each) not in (int, type(None)) for each in bounds):
                raise Unproven(f"a {kind.__name__} has bounds that are no integers")
            now = f"({name}.start, {name}.stop, {name}.step)"
            self.refuse(f"type({name}) is not {self.hold(kind)} or not equal({now}, {self.hold(bounds)})")
        elif kind is set:
            if value:
                raise Unproven("a set is read")
            self.refuse(f"type({name}) is not set or {name}")
        elif kind in (tuple, list, Size):
            self.note(name, value)
            size = self.checked_size(value)
            self.refuse(f"type({name}) is not {self.hold(kind)} or len({name}) != {size}")
            for k, part in enumerate(value):
                self.read(f"{name}[{k}]", part, given)
        elif kind is dict or (kind.__name__ == "OrderedDict" and kind.__module__ == "collections"):
            self.note(name, value)
            self.checked_size(value)
            keys = list(value)
            if any(type(key) not in (str, int, bool, type(None)) for key in keys):
                raise Unproven("a dictionary has keys that are not text or integers")
            self.refuse(
                f"type({name}) is not {self.hold(kind)} or not equal(list({name}), {self.hold(keys)})"
            )
            for key, part in value.items():
                self.read(f"{name}[{key!r}]", part, given)
        elif any(each is value for each in (*self.lasting, *self.given)):
            self.refuse(f"{name} is not {self.names[id(value)]}")  # what holds for it is known already
        elif isinstance(value, Tensor):
            self.compare_tensor(name, value, given)
        else:
            self.compare_object(name, value)

    def checked_size(self, value: Any) -> int:
        if len(value) > MANY:
            raise Unproven(f"a {type(value).__name__} of {len(value)} things is read")
        return len(value)

    def compare_object(self, name: str, value: Any) -> None:
        try:
            weakref.ref(value)
        except TypeError:
            raise Unproven(f"nobody can tell whether a {type(value).__name__} stays the same") from None
        self.note(name, value)
        if is_everlasting(value):
            self.refuse(f"{name} is not {self.hold(value)}")
            return
        if not any(each is value for each in self.same):
            self.same.append(value)
        # While all of these objects live, and the proof ends with the first, nobody else has their ids.
        self.refuse(f"id({name}) != {id(value)}")

    def keep_class(self, value: Any) -> None:
        """An object must stay of its class, and the class must stay what it is."""
        kind = type(value)
        if can_change(kind):
            self.tag(kind)
            self.refuse(f"id(type({self.name_of(value)})) != {id(kind)}")

    def tag(self, kind: type) -> None:
        """A class must stay what it is: then what is found in it, and how, stays the same, too."""
        if id(kind) in self.classes or not can_change(kind):
            return
        tag = tag_of(kind)
        if not tag.value:
            raise Unproven(f"nobody can tell whether the class {kind.__name__} stays what it is")
        self.found.append(kind)
        if not is_everlasting(kind) and not any(each is kind for each in self.same):
            self.same.append(kind)
        self.classes[id(kind)] = f"{self.hold(tag)}.value != {tag.value}"

    def compare_tensor(self, name: str, value: Tensor, given: bool) -> None:
        self.note(name, value)
        edge = value._edge
        if edge is not None and type(edge) is not AccumulateGrad:
            raise Unproven("a tensor from outside has a history")
        if value._base is not None and (edge is not None or value._base._edge is not None):
            raise Unproven("a tensor from outside is a view with a gradient")
        if given:
            if type(value) is not Tensor or edge is not None:
                raise Unproven("a parameter comes with the call")
            self.tag(Tensor)
            self.given.append(value)
            self.refuse(f"type({name}) is not Tensor or {name}._edge is not None")
        else:
            self.keep_class(value)
            self.compare_object(name, value)
            if not any(each is value for each in self.lasting):
                self.lasting.append(value)
            if edge is None:
                self.refuse(f"{name}._edge is not None")
            else:
                self.compare_object(self.variable(f"{name}._edge"), edge)
        if value._base is None:
            self.refuse(f"{name}._base is not None")
        else:  # what a view is part of may get a history later
            self.refuse(f"{name}._base is not None and {name}._base._edge is not None")
        form = value._form
        array = self.variable(f"{name}._form")
        layout = f"{array}.shape != {form.shape} or {array}.strides != {form.strides}"
        layout += f" or {array}.dtype != {self.hold(form.dtype)}"
        if not given:  # it is mostly the very same memory
            layout = f"{array} is not {self.hold(weakref.ref(form))}() and ({layout})"
        self.refuse(layout)

    def note(self, name: str, value: Any) -> None:
        self.found.append(value)
        self.names.setdefault(id(value), name)

    def is_known(self, value: Any) -> bool:
        return id(value) in self.names

    def name_of(self, value: Any) -> str:
        if id(value) not in self.names:
            raise Unproven(f"a {type(value).__name__} takes part that nothing leads to")
        return self.names[id(value)]

    def function(self, signature: str, result: str) -> Callable[..., Any]:
        """The function that reads everything again, and gives a result, or None."""
        self.held["lasting"] = frozenset(map(id, self.lasting))
        given = [self.names[id(each)] for each in self.given]
        if given:
            ids = "{" + ", ".join(f"id({name})" for name in given) + "}"
            self.refuse(f"len(ids := {ids}) != {len(given)} or not ids.isdisjoint(lasting)")
        lines = [f"def holds({signature}):", "  try:"]
        if self.classes:  # before anything is read
            lines.append(f"    if {' or '.join(self.classes.values())}: return None")
        lines += [f"    {line}" for line in self.lines]
        lines += [f"    return {result}"]
        lines += [
            "  except (AttributeError, KeyError, IndexError, TypeError, ValueError):",
            "    return None",
        ]
        scope = dict(self.held)
        exec(compile("\n".join(lines), "<what a compiled function has read>", "exec"), scope)
        return scope["holds"]


def is_everlasting(value: Any) -> bool:
    """Whether it keeps nothing of the user's alive to hold on to something."""
    if type(value) in (types.CodeType, types.ModuleType, types.BuiltinFunctionType, AccumulateGrad):
        return True
    return isinstance(value, (types.FunctionType, type)) and is_library(value)


def is_library(thing: Any) -> bool:
    """Whether a function or class is cleargrad's own; a wrapper may claim the module of what it wraps."""
    is_function = type(thing) is types.FunctionType
    home = thing.__globals__.get("__name__") if is_function else getattr(thing, "__module__", None)
    return str(home).startswith("cleargrad.")
