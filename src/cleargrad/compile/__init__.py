"""torch.compile: functions and modules as native programs. The package itself is the function.

Calls wait (waiting.py) and follow known traces (traces.py). A trace that repeats is recorded as a graph
(building.py), which is simplified (passes.py), cut into kernels (statements.py, fuse.py, loops.py) that lie in one
block of memory (memory.py), and run (program.py, ending.py). Read next: compile/traces.py.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from cleargrad.errors import error

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
BACKENDS = ("inductor", "eager", "aot_eager")


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function or module that runs as native programs; also a decorator, with or without arguments.

    A whole training step may be one function: zero_grad, forward, backward, clipping and the optimizer's step then
    are one program. Python runs at every call, and what it calls on tensors waits until a value is looked at or the
    function returns; `fullgraph` makes an error of such a look. The backend "aot_eager" runs recorded graphs with
    NumPy, "eager" the function as it is; `mode`, `options` and `dynamic` are accepted.
    """
    check(mode, options, backend)
    given: dict[str, Any] = {"fullgraph": fullgraph, "backend": backend, "disable": disable}
    if model is None:
        return lambda function: compile(function, **given)
    from cleargrad.compile.capture import Compiled
    from cleargrad.compile.module import OptimizedModule
    from cleargrad.nn.module import Module

    if not callable(model):
        raise error(RuntimeError, "compile", "expected a function or a module", got=model)
    if isinstance(model, OptimizedModule | Compiled):
        return model

    def compiled(function: Callable, fullgraph: bool, backend: Any, disable: bool) -> Callable:
        if disable or backend == "eager":
            return function
        return Compiled(function, maker(backend), fullgraph, title(model))

    return OptimizedModule(model, compiled, given) if isinstance(model, Module) else compiled(model, **given)


def title(model: Any) -> str:
    return getattr(model, "__qualname__", type(model).__name__)


def check(mode: str | None, options: Any, backend: Any) -> None:
    if mode is not None and options is not None:
        rule = "Either mode or options can be specified, but both can't be specified at the same time."
        raise error(RuntimeError, "compile", rule)
    if mode is not None and mode not in MODES:
        raise error(
            RuntimeError, "compile", f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}"
        )
    if isinstance(backend, str) and backend not in BACKENDS:
        rule = f"Invalid backend: {backend!r}, see `torch.compiler.list_backends()` for available backends."
        raise error(RuntimeError, "compile", rule, fix=f"use one of {', '.join(BACKENDS)}")


def maker(backend: Any) -> Callable:
    """What makes a program of a graph."""
    if backend == "aot_eager":
        from cleargrad.compile.reference import Reading

        return Reading
    from cleargrad.devices.cpu.programs.program import Program

    return Program


class CompileModule(types.ModuleType):
    """`cleargrad.compile` is this package, and it can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return compile(*args, **kwargs)


sys.modules[__name__].__class__ = CompileModule
