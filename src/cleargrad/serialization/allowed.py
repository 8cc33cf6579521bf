"""The names that a checkpoint may mention, and what each stands for.

`Allowed` is asked by the machine in serialization/unpickling.py for every name, every call and every state
that is set. Classes that a program trusts are added with add_safe_globals. Read next:
serialization/rebuilding.py.
"""

from __future__ import annotations

import codecs
import collections
import importlib
import re
import sys
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

import numpy as np

from cleargrad import nn
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.parameter import Parameter
from cleargrad.ops import conversion
from cleargrad.ops.op import FACES
from cleargrad.serialization import rebuilding
from cleargrad.serialization.names import STORAGES, public_name
from cleargrad.storage import UntypedStorage

# What is called ---------------------------------------------------------------------------------------------


def encode(text: str, encoding: str = "latin1") -> bytes:
    """How old pickles write bytes."""
    if encoding not in ("latin1", "latin-1", "ascii", "utf-8"):
        raise ValueError(f"unknown encoding {encoding!r}")
    return codecs.encode(text, encoding)


def new_bytearray(content: Any = b"", encoding: str | None = None) -> bytearray:
    if isinstance(content, int):
        raise ValueError("a bytearray is made of bytes")
    return bytearray(content) if encoding is None else bytearray(encode(content, encoding))


NUMPY_TYPE = re.compile(r"[<>=|]?(b1|[iu][1248]|f[248]|c8|c16|[SU]\d{1,6})")


def numpy_dtype(code: str, align: bool = False, copy: bool = False) -> np.dtype:
    if not isinstance(code, str) or not NUMPY_TYPE.fullmatch(code):
        raise ValueError(f"NumPy's dtype {code!r} is not plain numbers or text")
    return np.dtype(code, copy=True)


def numpy_array(kind: Any, shape: tuple, code: Any) -> np.ndarray:
    return np.ndarray.__new__(np.ndarray, (0,), np.int8)


def numpy_scalar(kind: np.dtype, content: bytes) -> Any:
    if type(kind) is not type(np.dtype(kind.str)) or kind.hasobject or not isinstance(content, bytes):
        raise ValueError("a NumPy scalar is described wrongly")
    return np.frombuffer(content, kind, 1)[0]


def default_dict(factory: Any = None) -> collections.defaultdict:
    if not any(factory is kind for kind in (None, list, dict, int, float, str, set, tuple, bool)):
        raise ValueError("a defaultdict may only make plain containers and numbers")
    return collections.defaultdict(factory)


# The table --------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable] = {
    "torch._utils._rebuild_tensor": rebuilding.rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuilding.rebuild_tensor,
    "torch._utils._rebuild_tensor_v3": rebuilding.rebuild_tensor_of_dtype,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuilding.rebuild_meta,
    "torch._utils._rebuild_parameter": rebuilding.rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuilding.rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": rebuilding.rebuild_from_type,
    "torch.Size": Size,
    "torch.device": devices.device,
    "torch.serialization._get_layout": lambda name: conversion.strided,
    "collections.OrderedDict": collections.OrderedDict,
    "collections.Counter": collections.Counter,
    "collections.defaultdict": default_dict,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.complex": complex,
    "builtins.bytearray": new_bytearray,
    "_codecs.encode": encode,
    "numpy.dtype": numpy_dtype,
    **{
        f"numpy.{core}.multiarray.{name}": function
        for core in ("core", "_core")
        for name, function in (("_reconstruct", numpy_array), ("scalar", numpy_scalar))
    },
}

VALUES: dict[str, Any] = {
    **{f"torch.{kind.name}": kind for kind in dtypes.ALL},
    **{f"torch.{place}{name}": kind for place in ("", "cuda.") for name, kind in STORAGES.items()},
    "torch.storage.UntypedStorage": UntypedStorage,
    "torch.storage.TypedStorage": UntypedStorage,
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.contiguous_format": conversion.contiguous_format,
    "torch.channels_last": conversion.channels_last,
    "torch.channels_last_3d": conversion.channels_last_3d,
    "torch.preserve_format": conversion.preserve_format,
    "torch.strided": conversion.strided,
    "numpy.ndarray": np.ndarray,
    **{f"builtins.{kind.__name__}": kind for kind in (list, dict, int, float, str, tuple, bool)},
}
for _table in (CALLS, VALUES):
    for _name in [name for name in _table if name.startswith("builtins.")]:
        _table["__builtin__" + _name.removeprefix("builtins")] = _table[_name]  # what protocol 2 writes

# Classes of Python's library that hold data and do nothing; they come in with weights_only=False.
HARMLESS = {
    "argparse": ("Namespace",),
    "builtins": ("slice",),
    "collections": ("deque",),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "pathlib": ("Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath"),
    "types": ("SimpleNamespace",),
}

# What the program trusts ------------------------------------------------------------------------------------

_trusted: dict[str, Any] = {}


def add_safe_globals(safe_globals: list) -> None:
    """Trusts classes and functions, or (class, name) pairs, to be made and called by files that are loaded."""
    for entry in safe_globals:
        thing, name = entry if isinstance(entry, tuple) else (entry, None)
        _trusted[name or f"{thing.__module__}.{thing.__qualname__}"] = thing


def clear_safe_globals() -> None:
    """Trusts nothing but the table again."""
    _trusted.clear()


def get_safe_globals() -> list:
    """What add_safe_globals was given."""
    return list(_trusted.values())


class safe_globals:
    """Trusts classes and functions inside a block."""

    def __init__(self, safe_globals: list):
        self.given = safe_globals

    def __enter__(self) -> None:
        self.before = dict(_trusted)
        add_safe_globals(self.given)

    def __exit__(self, *exception: object) -> None:
        _trusted.clear()
        _trusted.update(self.before)


class Allowed:
    """The table as it holds for one call of load."""

    def __init__(self, weights_only: bool):
        self.weights_only = weights_only
        self.calls = {id(function) for function in CALLS.values()}  # what a pickle may call
        self.classes: set[Any] = {collections.OrderedDict, Size, set}  # what it may make without calling it

    def find(self, module: str, name: str) -> Any:
        """What a name in a pickle stands for; an error when nobody allows it."""
        full = f"{module}.{name}"
        for table in (CALLS, VALUES):
            if full in table:
                return table[full]
        thing = trusted(full)
        if thing is None and not self.weights_only:
            thing = harmless(module, name)
            if thing is None:
                return self.find_module(module, name)
        if thing is None:
            raise self.refusal(full, name)
        self.calls.add(id(thing))
        if isinstance(thing, type):
            self.classes.add(thing)
        return thing

    def find_module(self, module: str, name: str) -> Any:
        """A class of modules, which may be made but not called, or a function, which may only be mentioned."""
        thing = library_function(module, name) or module_class(module, name)
        if thing is None:
            raise self.refusal(f"{module}.{name}", name)
        if isinstance(thing, type):
            self.classes.add(thing)
        return thing

    def refusal(self, full: str, name: str) -> Exception:
        rule = f"Weights only load failed. Unsupported global: GLOBAL {full} was not an allowed global by default"
        fix = f"if you trust the file's author, torch.serialization.add_safe_globals([{name.rpartition('.')[2]}])"
        if not self.weights_only:
            fix += "; weights_only=False executes nothing here either"
        return error(UnpicklingError, "load", rule, fix=fix)

    def call(self, function: Any, arguments: Any) -> Any:
        if not isinstance(arguments, tuple):
            raise ValueError("the arguments of a call are no tuple")
        if id(function) not in self.calls:
            raise error(UnpicklingError, "load", f"Weights only load failed. Trying to call {function!r}")
        return function(*arguments)

    def make(self, cls: Any, arguments: Any, keywords: Any) -> Any:
        if not isinstance(cls, type) or cls not in self.classes:
            raise error(UnpicklingError, "load", f"Weights only load failed. Trying to make a {cls!r}")
        return cls.__new__(cls, *arguments, **keywords)

    def set_state(self, thing: Any, state: Any) -> None:
        """What BUILD does: gives an object the state that was saved with it."""
        if isinstance(thing, np.dtype):
            set_dtype_state(thing, state)
        elif type(thing) is np.ndarray:
            set_array_state(thing, state)
        elif type(thing) in (collections.OrderedDict, collections.Counter):
            vars(thing).update(checked_state(state))
        elif type(thing) in self.classes:
            set_trusted_state(thing, state)
        else:
            raise ValueError(f"a {type(thing).__name__} has no state to set")


def checked_state(state: Any) -> dict:
    if not isinstance(state, dict) or not all(isinstance(key, str) for key in state):
        raise ValueError("an object's state is no dict of names")
    return state


def set_dtype_state(kind: np.dtype, state: Any) -> None:
    if not isinstance(state, tuple) or state[1] not in ("<", ">", "|", "="):
        raise ValueError("a NumPy dtype is described wrongly")
    if state != kind.newbyteorder(state[1]).__reduce__()[2]:
        raise ValueError("a NumPy dtype is more than a byte order")
    kind.__setstate__(state)  # type: ignore[attr-defined]


def set_array_state(array: np.ndarray, state: Any) -> None:
    _, _, kind, _, content = state
    if not isinstance(kind, np.dtype) or kind.hasobject or not isinstance(content, bytes):
        raise ValueError("a NumPy array is described wrongly")
    array.__setstate__(state)


def set_trusted_state(thing: Any, state: Any) -> None:
    setter = getattr(thing, "__setstate__", None)
    if setter is not None:
        setter(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        vars(thing).update(checked_state(state))
    for name, value in checked_state(slots or {}).items():
        setattr(thing, name, value)


# What weights_only decides ----------------------------------------------------------------------------------


def trusted(full: str) -> Any:
    """What add_safe_globals was given under a name; our own classes go by PyTorch's names as well."""
    if full in _trusted:
        return _trusted[full]
    return next((thing for thing in _trusted.values() if public_name(thing) == full), None)


def harmless(module: str, name: str) -> Any:
    """A plain data class of Python's library."""
    module = "pathlib" if module == "pathlib._local" else module  # as Python 3.13 calls it
    if name not in HARMLESS.get(module, ()):
        return None
    return getattr(importlib.import_module(module), name)


def library_function(module: str, name: str) -> Any:
    """A function such as torch.nn.functional.relu, which a saved module may refer to."""
    if module not in ("torch", "torch.nn.functional"):
        return None
    space = module.removeprefix("torch").removeprefix(".")
    return next((face.function for face in FACES if face.name == name and space in face.spaces), None)


def module_class(module: str, name: str) -> Any:
    """A subclass of Module that exists already: one of ours, or one that the program has defined."""
    thing = getattr(sys.modules.get(module), name, None)
    if module.startswith(("torch.nn.", "cleargrad.nn.")):
        # A few classes are not in torch.nn itself.
        home = sys.modules.get(module.replace("torch", "cleargrad", 1))
        thing = getattr(nn, name, None) or getattr(home, name, None)
    return thing if isinstance(thing, type) and issubclass(thing, nn.Module) else None
