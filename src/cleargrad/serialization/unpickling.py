"""Reading pickles without executing them: a small machine that knows few instructions and few names.

Every name a pickle mentions is looked up in a table (serialization/allowed.py) and calls happen only to
entries of that table; nothing is imported. Read next: serialization/allowed.py.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

from cleargrad.errors import error
from cleargrad.serialization.allowed import Allowed
from cleargrad.serialization.archive import corrupted

MARK = object()

# Instructions that push their own argument.
CONSTANTS = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
NEW: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
    "MARK": lambda: MARK,
}
NOTHING = {"PROTO", "FRAME"}
GETS = {"GET", "BINGET", "LONG_BINGET"}
PUTS = {"PUT", "BINPUT", "LONG_BINPUT"}
SMALL_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Machine:
    """The stack and the memo of one pickle."""

    def __init__(self, allowed: Allowed, storage: Callable[[tuple], Any]):
        self.allowed, self.storage = allowed, storage
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        """The object that a pickle describes."""
        try:
            for instruction, argument, _ in pickletools.genops(content):
                name = instruction.name
                if name == "STOP":
                    return self.pop()
                self.step(name, argument)
        except UnpicklingError:
            raise
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as failure:
            raise corrupted(f"the pickle is malformed: {failure}") from failure
        raise corrupted("the pickle has no end")

    def step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in CONSTANTS:
            stack.append(argument)
        elif name in NEW:
            stack.append(NEW[name]())
        elif name in PUTS:
            self.memo[argument] = stack[-1]
        elif name in GETS:
            stack.append(self.memo[argument])
        elif name in SMALL_TUPLES:
            count = SMALL_TUPLES[name]
            stack[-count:] = [tuple(self.plain(stack[-count:], count))]
        elif name not in NOTHING:
            method = getattr(self, "do_" + name.lower(), None)
            if method is None:
                raise error(UnpicklingError, "load", f"Weights only load failed. Unsupported operand {name}")
            method(argument)

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is MARK:
            raise ValueError("a mark where a value was expected")
        return value

    def plain(self, values: list, count: int) -> list:
        if len(values) != count or any(value is MARK for value in values):
            raise ValueError("a value is missing")
        return values

    def pop_to_mark(self) -> list:
        """The values above the last mark."""
        stack = self.stack
        for place in range(len(stack) - 1, -1, -1):
            if stack[place] is MARK:
                values = stack[place + 1 :]
                del stack[place:]
                return values
        raise ValueError("a mark is missing")

    # Containers --------------------------------------------------------------------------------------------

    def do_memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def do_pop(self, _: Any) -> None:
        self.stack.pop()

    def do_pop_mark(self, _: Any) -> None:
        self.pop_to_mark()

    def do_tuple(self, _: Any) -> None:
        self.stack.append(tuple(self.pop_to_mark()))

    def do_list(self, _: Any) -> None:
        self.stack.append(self.pop_to_mark())

    def do_dict(self, _: Any) -> None:
        values = self.pop_to_mark()
        self.stack.append(dict(zip(values[::2], values[1::2], strict=True)))

    def do_frozenset(self, _: Any) -> None:
        self.stack.append(frozenset(self.pop_to_mark()))

    def do_append(self, _: Any) -> None:
        value = self.pop()
        self.extend([value])

    def do_appends(self, _: Any) -> None:
        self.extend(self.pop_to_mark())

    def extend(self, values: list) -> None:
        target = self.stack[-1]
        if not isinstance(target, list) and type(target) not in self.allowed.classes:
            raise ValueError(f"cannot append to a {type(target).__name__}")
        target.extend(values)

    def do_setitem(self, _: Any) -> None:
        value, key = self.pop(), self.pop()
        self.update([key, value])

    def do_setitems(self, _: Any) -> None:
        self.update(self.pop_to_mark())

    def update(self, values: list) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) and type(target) not in self.allowed.classes:
            raise ValueError(f"cannot set items of a {type(target).__name__}")
        for key, value in zip(values[::2], values[1::2], strict=True):
            target[key] = value

    def do_additems(self, _: Any) -> None:
        values = self.pop_to_mark()
        target = self.stack[-1]
        if type(target) is not set:
            raise ValueError(f"cannot add items to a {type(target).__name__}")
        target.update(values)

    # Names and calls ---------------------------------------------------------------------------------------

    def do_global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.stack.append(self.allowed.find(module, name))

    def do_stack_global(self, _: Any) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise ValueError("a name must be a string")
        self.stack.append(self.allowed.find(module, name))

    def do_reduce(self, _: Any) -> None:
        arguments, function = self.pop(), self.pop()
        self.stack.append(self.allowed.call(function, arguments))

    def do_newobj(self, _: Any) -> None:
        arguments, cls = self.pop(), self.pop()
        self.stack.append(self.allowed.make(cls, arguments, {}))

    def do_newobj_ex(self, _: Any) -> None:
        keywords, arguments, cls = self.pop(), self.pop(), self.pop()
        self.stack.append(self.allowed.make(cls, arguments, keywords))

    def do_build(self, _: Any) -> None:
        state = self.pop()
        self.allowed.set_state(self.stack[-1], state)

    def do_binpersid(self, _: Any) -> None:
        identity = self.pop()
        if not isinstance(identity, tuple) or len(identity) != 5 or identity[0] != "storage":
            raise ValueError("a tensor's storage is described wrongly")
        self.stack.append(self.storage(identity))
