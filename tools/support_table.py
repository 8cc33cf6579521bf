"""Writes docs/support.md: which of PyTorch's names are here, from the registry of ops and from both packages.

Names come from PyTorch, so it must be installed. Read next: tools/api_pages.py.

python tools/support_table.py
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import cleargrad
from cleargrad.missing import MissingModule, StandIn
from cleargrad.ops.creation import FUNCTIONS
from cleargrad.ops.op import FACES, NO_GRAD, OPAQUE, OPS, Face

PAGE = Path(__file__).parent.parent / "docs" / "support.md"
SPACES = {
    "": "torch",
    "nn.functional": "torch.nn.functional",
    "linalg": "torch.linalg",
    "special": "torch.special",
    "fft": "torch.fft",
}
CLASSES = {
    "nn": "Modules: torch.nn",
    "optim": "Optimizers: torch.optim",
    "optim.lr_scheduler": "Schedulers: torch.optim.lr_scheduler",
    "distributions": "Distributions: torch.distributions",
    "utils.data": "Data: torch.utils.data",
}
INTRODUCTION = """\
# What is supported

Written by `tools/support_table.py` from the registry of ops and from PyTorch {version}; a test fails when it is
out of date.

Every function below is tested against PyTorch in the op matrix, which is generated from its declaration: values,
dtypes, gradients, gradients of gradients, recording, memory layouts, in-place forms and errors
(`tests/ops/test_matrix.py`).

| column | what it says |
|---|---|
| gradient | **yes**, or **no** where the function has none, as in PyTorch |
| compiled | **native**: machine code, fused with its neighbours; **called**: NumPy runs it between two parts of \
the program; **parts**: as the functions it is made of |
| method, in place, out | whether it is a method of tensors, has the form `name_`, takes `out=` |"""


def is_here(place: Any, name: str) -> bool:
    """Whether cleargrad has it, and not only a stand-in that says it has not."""
    absent = StandIn("absent", (), {})
    return not isinstance(getattr(place, name, absent), StandIn | MissingModule)


def mark(is_so: bool) -> str:
    return "yes" if is_so else ""


def row(face: Face, name: str) -> str:
    gradient = "no" if face.vjp is NO_GRAD else "yes"
    compiled = "parts" if face.op is None else "called" if face.op.lower is OPAQUE else "native"
    cells = [
        f"`{name}`",
        gradient,
        compiled,
        mark(face.method),
        mark(face.inplace is not None),
        mark(face.out),
    ]
    return "| " + " | ".join(cells) + " |"


def functions(space: str) -> list[str]:
    """A table of the functions of a namespace; the first one that has a function lists it."""
    found = {face.name: face for face in FACES if space in face.spaces}
    if not found:
        return []
    heads = "| function | gradient | compiled | method | in place | out |\n|---|---|---|---|---|---|"
    return [heads, *(row(found[name], name) for name in sorted(found))]


def methods() -> list[str]:
    """Methods that are no functions."""
    found = {face.name: face for face in FACES if face.method and not face.spaces}
    heads = "| method | gradient | compiled | method | in place | out |\n|---|---|---|---|---|---|"
    return [heads, *(row(found[name], name) for name in sorted(found))]


def public(place: ModuleType) -> list[str]:
    """Names that PyTorch documents: classes and functions of its own, with words about them."""
    names = getattr(place, "__all__", None) or dir(place)
    return sorted(
        name
        for name in names
        if not name.startswith("_")
        and callable(getattr(place, name, None))
        and inspect.getdoc(getattr(place, name))
    )


def classes(path: str) -> tuple[list[str], list[str]]:
    """Names that are here, and names that are not."""
    theirs, ours = (importlib.import_module(f"{package}.{path}") for package in ("torch", "cleargrad"))
    names = [name for name in public(theirs) if inspect.isclass(getattr(theirs, name))]
    here = [name for name in names if is_here(ours, name)]
    return here, [name for name in names if name not in here]


def missing_functions(space: str) -> list[str]:
    theirs, ours = torch, cleargrad
    for part in filter(None, space.split(".")):
        theirs, ours = getattr(theirs, part), getattr(ours, part)
    names = [
        name for name in public(theirs) if name[0].islower() and not inspect.isclass(getattr(theirs, name))
    ]
    return [name for name in names if not is_here(ours, name)]


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page() -> str:
    version = torch.__version__.split("+")[0]
    opaque = sum(op.lower is OPAQUE for op in OPS.values())
    parts = [INTRODUCTION.format(version=version)]
    parts.append(
        f"{len(FACES)} functions and methods stand on {len(OPS)} ops; {len(OPS) - opaque} of those are compiled to "
        f"machine code, and {opaque} are called ([why](design/07-opaque-ops.md))."
    )
    for path, title in CLASSES.items():
        here, absent = classes(path)
        parts.append(f"## {title}\n\n{len(here)} here: {listed(here)}.")
        if absent:
            parts.append(f"Not here: {listed(absent)}.")
    parts.append(f"## Making tensors\n\n{len(FUNCTIONS)} here: {listed(sorted(FUNCTIONS))}.")
    for space, title in SPACES.items():
        parts.append(f"## Functions: {title}\n\n" + "\n".join(functions(space)))
        absent = missing_functions(space)
        if absent:
            parts.append(
                "PyTorch has these names besides and cleargrad has not; most belong to sparse, quantised and "
                f"other kinds of tensors, or are not meant to be called:\n\n{listed(absent)}."
            )
    parts.append("## Methods of tensors only\n\n" + "\n".join(methods()))
    absent = [name for name in dir(torch.Tensor) if name[0] != "_" and not is_here(cleargrad.Tensor, name)]
    parts.append(f"Not here: {listed(absent)}.")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
