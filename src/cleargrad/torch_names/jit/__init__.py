"""torch.jit: PyTorch's older compiler. Programs that use it run here as plain Python.

`script` and `trace` give back what they get, for which the results are the same; TorchScript files are
refused. Read next: jit/annotations.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from cleargrad.errors import error
from cleargrad.nn.module import Module

__all__ = [
    "Final",
    "annotate",
    "export",
    "freeze",
    "ignore",
    "is_scripting",
    "is_tracing",
    "script",
    "trace",
    "unused",
]


class Error(RuntimeError):
    """An error of the compiler."""


class TracerWarning(Warning):
    """A warning of `trace`."""


class ScriptWarning(Warning):
    """A warning of `script`."""


class ScriptModule(Module):
    """A module to derive from; an ordinary one here."""


class ScriptFunction:
    """The type of a compiled function; nothing is one."""


class Attribute:
    """A value and its type, for attributes whose type cannot be seen."""

    def __init__(self, value: Any, type: Any):
        self.value = value
        self.type = type


RecursiveScriptModule = TracedModule = TopLevelTracedModule = ScriptModule


def script(
    obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Any:
    """The module, function or class itself."""
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The module or function itself."""
    return func


def trace_module(mod: Module, inputs: Any, *args: Any, **kwargs: Any) -> Module:
    return mod


def script_method(fn: Callable) -> Callable:
    return fn


def script_if_tracing(fn: Callable) -> Callable:
    return fn


_script_if_tracing = script_if_tracing


def interface(obj: type) -> type:
    return obj


def export(fn: Callable) -> Callable:
    """Marks a method to be compiled."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Callable:
    """Marks a function to be left to Python; also as a decorator with arguments."""
    return drop if callable(drop) else lambda fn: fn


def unused(fn: Callable) -> Callable:
    """Marks a function that compiled code never calls."""
    return fn


def _overload(func: Callable) -> Callable:
    return func


_overload_method = _overload


def is_scripting() -> bool:
    """Whether compiled code runs: never."""
    return False


def is_tracing() -> bool:
    return False


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value, which compiled code takes to be of a type."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type."""
    return issubclass(type(obj), target_type)


def freeze(mod: Module, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Module:
    """A module whose weights are constants: itself, in evaluation."""
    if mod.training:
        rule = "Freezing is currently only implemented for modules in eval mode"
        raise error(RuntimeError, "torch.jit.freeze", rule, fix="call .eval() on the module first")
    return mod


def optimize_for_inference(mod: Module, other_methods: Any = None) -> Module:
    return mod.eval()


def fork(func: Callable, *args: Any, **kwargs: Any) -> Any:
    """The function's result; `wait` gives it back."""
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    return future


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    yield


def set_fusion_strategy(strategy: list) -> list:
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    pass


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Writes a TorchScript file; refused."""
    fix = "save the weights: torch.save(model.state_dict(), path)"
    raise error(NotImplementedError, "torch.jit.save", "cleargrad does not write TorchScript files", fix=fix)


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> NoReturn:
    """Reads a TorchScript file; refused."""
    fix = "load the weights into the model's class with load_state_dict"
    raise error(NotImplementedError, "torch.jit.load", "cleargrad does not run TorchScript files", fix=fix)
