"""Names that programs mention and cleargrad has not: importing them works, using them says so in one sentence.

`missing` makes a stand-in for one name. It is a class, so that a program may also test `isinstance` against it
or derive from it; only making an instance, or calling it, is refused. `MissingModule` is a module of such names.
Read next: torch_names/onnx/__init__.py, which uses it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from cleargrad.errors import error


class StandIn(type):
    """The type of stand-ins; what a program asks one for is a stand-in too, as in `torch.fx.node.Target`."""

    _what: str
    _fix: str | None

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(
                f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls
            )
        value = missing(f"{cls.__module__}.{cls.__name__}.{name}", cls._what, cls._fix)
        setattr(cls, name, value)
        return value


def missing(name: str, what: str, fix: str | None = None) -> Any:
    """A stand-in for the name, such as "torch.fx.Tracer"; `what` says what cleargrad does not do."""

    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(NotImplementedError, name, f"cleargrad does not {what}", fix=fix)

    module, _, last = name.rpartition(".")
    facts = {"__module__": module, "__doc__": f"Not in cleargrad: {name}.", "_what": what, "_fix": fix}
    return StandIn(last, (), {"__new__": refuse, **facts})


def all_missing(module: str, names: str, what: str, fix: str | None = None) -> dict[str, Any]:
    """Stand-ins for several names of a module, to be put into its namespace."""
    return {name: missing(f"{module}.{name}", what, fix) for name in names.split()}


class MissingModule(ModuleType):
    """A module that cleargrad has not: it has every name, and each says so when it is used."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        value = missing(f"{self.__name__}.{name}", f"have the module {self.__name__}")
        setattr(self, name, value)
        return value
