"""torch.library: operators of a library's own, and `torch.ops`, where they are found by name.

An operator here is its Python function: what a program says about devices, shapes for tracing and the compiler is
taken note of and not needed. Files of compiled operators cannot be loaded. Read next: compat.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from cleargrad.autograd.function import Function
from cleargrad.errors import error

OPERATORS: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An operator: a function with a name such as "mine::scale"; calling it calls the function."""

    def __init__(self, name: str, function: Callable):
        self.name = self._qualname = name
        self.function = function
        self.differentiable: type[Function] | None = None
        OPERATORS[name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.differentiable is None or kwargs:
            return self.function(*args, **kwargs)
        return self.differentiable.apply(*args)

    @property
    def default(self) -> CustomOpDef:
        return self

    def register_fake(self, fn: Callable) -> Callable:
        """How to find the shape of the result without computing it: tracing would need it."""
        return fn

    register_vmap = register_torch_dispatch = register_fake

    def register_kernel(self, device_types: Any, fn: Callable | None = None) -> Callable:
        """The function for some devices; it becomes the operator's where the CPU is among them."""

        def keep(kernel: Callable) -> Callable:
            names = [device_types] if isinstance(device_types, str) else device_types
            if names is None or "cpu" in names:
                self.function = kernel
            return kernel

        return keep if fn is None else keep(fn)

    def register_autograd(self, backward: Callable, *, setup_context: Callable | None = None) -> None:
        """The gradient, as a class derived from torch.autograd.Function would state it."""

        def forward(*args: Any) -> Any:
            return self.function(*args)

        def prepare(ctx: Any, inputs: tuple, output: Any) -> None:
            if setup_context is not None:
                setup_context(ctx, inputs, output)

        rules = {"forward": forward, "setup_context": prepare, "backward": backward}
        body = {name: staticmethod(rule) for name, rule in rules.items()}
        self.differentiable = type(self.name.split("::")[-1], (Function,), body)


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: Any = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes a function an operator; also as a decorator."""
    if "::" not in name:
        rule = f"expected a name with a namespace, such as 'mylib::{name}'"
        raise error(ValueError, "torch.library.custom_op", rule, name=name)
    return (lambda function: CustomOpDef(name, function)) if fn is None else CustomOpDef(name, fn)


triton_op = custom_op


def named(op: Any) -> CustomOpDef | None:
    """The operator of a name; None for one that is compiled code, which cannot be here."""
    return op if isinstance(op, CustomOpDef) else OPERATORS.get(str(op))


def register_fake(op: Any, func: Callable | None = None, /, **options: Any) -> Callable:
    """How to find the shape of an operator's result; also as a decorator."""
    return (lambda function: function) if func is None else func


impl_abstract = register_vmap = register_torch_dispatch = register_fake


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, **options: Any) -> Callable:
    found = named(op)
    if found is None:
        return (lambda function: function) if func is None else func
    return found.register_kernel(device_types, func)


def register_autograd(
    op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    found = named(op)
    if found is not None:
        found.register_autograd(backward, setup_context=setup_context)


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Announces an operator; `impl` gives its function."""


def impl(qualname: str, types: Any, func: Callable | None = None, *, lib: Any = None) -> Callable:
    """The function of an operator that was announced; also as a decorator."""

    def keep(function: Callable) -> Callable:
        if qualname not in OPERATORS or "CPU" in str(types).upper():
            CustomOpDef(qualname, function)
        return function

    return keep if func is None else keep(func)


class Library:
    """Operators of one namespace."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = ""):
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        return schema.split("(")[0]

    def impl(self, op_name: Any, fn: Callable, dispatch_key: str = "", **options: Any) -> None:
        impl(f"{self.ns}::{op_name}", dispatch_key or self.dispatch_key or "CPU", fn)

    def _destroy(self) -> None:
        """Forgets the operators."""
        for name in [name for name in OPERATORS if name.startswith(f"{self.ns}::")]:
            del OPERATORS[name]


class Namespace:
    """`torch.ops.mine`: the operators whose names start with "mine::"."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> CustomOpDef:
        found = OPERATORS.get(f"{self._name}::{name}")
        if found is None:
            raise AttributeError(f"cleargrad does not have the operator torch.ops.{self._name}.{name}.")
        return found


class Operators:
    """`torch.ops`."""

    loaded_libraries: frozenset[str] = frozenset()

    def load_library(self, path: str) -> NoReturn:
        """Loads a file of operators compiled for PyTorch, which no other program can use."""
        raise error(OSError, "torch.ops.load_library", "the file is compiled for PyTorch", path=str(path))

    def __getattr__(self, name: str) -> Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return Namespace(name)


operators = Operators()
