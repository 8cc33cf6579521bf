"""Names that programs mention and cleargrad has not: importing them works, using them says so in one sentence.

`missing` makes a stand-in for one name. It is a class, so that a program may also test `isinstance` against it
or derive from it; only making an instance, or calling it, is refused. Read next: onnx.py, which uses it.
"""

from __future__ import annotations

from typing import Any, NoReturn

from cleargrad.errors import error


def missing(name: str, what: str, fix: str | None = None) -> Any:
    """A stand-in for the name, such as "torch.fx.Tracer"; `what` says what cleargrad does not do."""

    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(NotImplementedError, name, f"cleargrad does not {what}", fix=fix)

    module, _, last = name.rpartition(".")
    return type(last, (), {"__new__": refuse, "__module__": module, "__doc__": f"Not in cleargrad: {name}."})


def all_missing(module: str, names: str, what: str, fix: str | None = None) -> dict[str, Any]:
    """Stand-ins for several names of a module, to be put into its namespace."""
    return {name: missing(f"{module}.{name}", what, fix) for name in names.split()}
