"""Real PyTorch as the doctor's engine.

Accumulation is heard through a hook on each parameter; a mark in the metadata of a loss's node tells whether its
graph is still alive. Nothing here imports torch: the program has done so. Read next: cleargrad_adapter.py.
"""

from __future__ import annotations

import functools
import inspect
import sys
import weakref
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any

from cleargrad.doctor.hooks import LibraryObserver, nodes_behind
from cleargrad.doctor.places import PACKAGE
from cleargrad.doctor.registry import Parameter

GRAPH, SCALED = "cleargrad doctor: graph", "cleargrad doctor: scaled by"  # keys in the metadata of nodes


def real_torch() -> Any:
    """PyTorch, if the program has imported it; None when there is none, or when cleargrad is served as torch."""
    torch = sys.modules.get("torch")
    file = getattr(torch, "__file__", None)
    return None if file is None or file.startswith(PACKAGE) else torch


def leave_to_python(compiler: Any) -> None:
    """Keeps PyTorch's compiler from compiling the doctor, whose hooks run within functions that it does compile."""
    skip = getattr(compiler, "skip_code", None)
    if skip is None:
        return
    for name, module in list(sys.modules.items()):
        if name.startswith("cleargrad.doctor"):
            for code in codes_in(vars(module).values(), name):
                skip(code)


def codes_in(things: Iterable[Any], module: str) -> Iterator[CodeType]:
    """The code of functions and methods that are written in a module, and of those within them."""
    for thing in list(things):
        thing = inspect.unwrap(getattr(thing, "__func__", getattr(thing, "fget", thing)))
        if isinstance(thing, CodeType):
            yield thing
            yield from codes_in(thing.co_consts, module)
        elif getattr(thing, "__module__", None) == module:
            if isinstance(thing, type):
                yield from codes_in(vars(thing).values(), module)
            elif isinstance(thing, FunctionType):
                yield from codes_in([thing.__code__], module)


class Mark:
    """Lies in a graph and dies with it."""

    __slots__ = ("__weakref__",)


class TorchObserver(LibraryObserver):
    """Observes PyTorch."""

    engine = "torch"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        compiler = real_torch().compiler
        # PyTorch's compiler knows these two functions, so that it leaves out what follows when it reads our code.
        self.is_compiling = compiler.is_compiling  # type: ignore[method-assign]
        self.is_traced = getattr(compiler, "is_dynamo_compiling", compiler.is_compiling)  # type: ignore[method-assign]

    def attach(self, objects: Iterable[Any]) -> None:
        super().attach(objects)
        compile = real_torch().compile

        @functools.wraps(compile)
        def watched_compile(*args: Any, **kwargs: Any) -> Any:
            made = compile(*args, **kwargs)
            leave_to_python(sys.modules.get("torch._dynamo.eval_frame"))
            return made

        self.patches.function(compile, watched_compile)
        leave_to_python(sys.modules.get("torch._dynamo.eval_frame"))

    def hook(self, record: Parameter, tensor: Any) -> None:
        record.hooked = True
        self.patches.handle(tensor.register_post_accumulate_grad_hook(self.filled.append))

    def norms(self, tensors: list[Any]) -> list[float]:
        if not tensors:
            return []
        torch = real_torch()
        norms = [norm.double() for norm in torch._foreach_norm(tensors)]
        return torch.stack([norm.to(norms[0].device) for norm in norms]).tolist()

    def mark_graph(self, root: Any) -> weakref.ref | None:
        node = root.grad_fn
        if node is None:
            return None
        mark = Mark()
        node.metadata[GRAPH] = mark
        return weakref.ref(mark)

    def mark_scaled(self, output: Any, scaler: int) -> None:
        output.grad_fn.metadata[SCALED] = scaler

    def scaler_behind(self, root: Any) -> int | None:
        if not self.registry.scalers.refs:
            return None
        found = (node.metadata[SCALED] for node in nodes_behind(root) if SCALED in node.metadata)
        return next(found, None)
