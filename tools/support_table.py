"""Writes docs/support.md: which of PyTorch's names are here, and how many of PyTorch's own test samples agree.

From the registry of ops, from both packages (PyTorch must be installed) and from benchmarks/results/agreement.json,
which tools/agreement.py writes. Read next: tools/api_pages.py.

python tools/support_table.py
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import api_pages
import result_tables
import torch

import cleargrad
from cleargrad.missing import MissingModule, StandIn
from cleargrad.ops.creation import FUNCTIONS
from cleargrad.ops.op import FACES, NO_GRAD, OPAQUE, OPS, Face

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "support.md"
AGREEMENT = json.loads((ROOT / "benchmarks" / "results" / "agreement.json").read_text(encoding="utf-8"))
# Why samples differ, where it is known.
REASONS = {
    "as_strided_scatter": "what is overwritten has no influence, so its gradient is zero here; PyTorch's is not",
    "histogramdd": "the ends of intervals are not in order in these samples, which has no meaning",
    "kthvalue": "which of several equal elements is meant is left open",
    "mode": "which of several equal elements is meant is left open",
    "topk": "which of several equal elements is meant is left open",
    "normal": "mean and deviation get no gradient here, and one of zeros in PyTorch",
}
INTERNAL = ("_", "torch.", "jiterator_", "sparse.", "to_sparse")
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
KINDS = {"nn": "modules", "optim": "optimizers"}
INTRODUCTION = """\
# What is supported

Names are those of PyTorch {version}. The page is written by `tools/support_table.py` from the registry of ops,
and a test fails when it is out of date.

PyTorch's own tests have samples of calls for every op, module and optimizer. They were run on both libraries,
from the same seed. A sample agrees when results have the same shapes, dtypes and values, and so have the
gradients of every input; of modules also the starting weights and the running statistics, of optimizers the
weights during ten steps and the state behind them. What that means for ops, exactly:

- Up to 200 samples in float32 and in int64 each, or in another dtype where an op takes neither; sparse ones are
  left out.
- Values agree when they differ by at most 2e-4 of themselves, or 2e-5 of the largest (float32). Where they
  differ more, a sample also counts if cleargrad's result is nearer to PyTorch's own in float64 than PyTorch's
  in float32 is: {nearer} samples.
- Of factors that are not unique (`svd`, `eigh` and their kin) the product is compared, of uninitialised memory
  the shape.
- One variant, `as_strided[partial_views]`, is left out: its inputs show part of a larger memory, which copies
  do not have.
- Of modules all samples in float64 count, at most 150 each, and some in float32; of optimizers all in float32.

{agreement}

Besides, each function is tested with samples of its own declaration (`tests/ops/test_matrix.py`): gradients of
gradients, recording, memory layouts, in-place forms and errors.

{differing}

## How to read the tables

| column | what it says |
|---|---|
| samples | how many of PyTorch's samples agree, of how many; empty where PyTorch has none under this name |
| gradient | **yes**, or **no** where the function has none, as in PyTorch |
| compiled | **native**: machine code, fused with its neighbours; **called**: NumPy runs it between two parts of \
the program; **parts**: as the functions it is made of |
| method, in place, out | whether it is a method of tensors, has the form `name_`, takes `out=` |"""


def is_here(place: Any, name: str) -> bool:
    """Whether cleargrad has it, and not only a stand-in that says it has not."""
    absent = StandIn("absent", (), {})
    found = getattr(place, name, absent)
    return not isinstance(found, StandIn | MissingModule) and not api_pages.refuses(found)


def by_function() -> dict[str, tuple[int, int]]:
    """Samples that agree and samples, of all variants of an op together."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for name, row in AGREEMENT["ops"].items():
        if "missing" not in row:
            agree, samples = found[name.partition("[")[0]]
            found[name.partition("[")[0]] = agree + row["agree"], samples + row["samples"]
    return dict(found)


SAMPLES = by_function()


def differing() -> str:
    """The ops of which some samples differ, and those that are not here."""
    rows = [
        f"| `{name}` | {row['agree']} of {row['samples']} | {REASONS.get(name.partition('[')[0], row['first'])} |"
        for kind in ("ops", "modules", "optimizers")
        for name, row in AGREEMENT[kind].items()
        if "missing" not in row and row["agree"] < row["samples"]
    ]
    missing = [
        name
        for name, row in AGREEMENT["ops"].items()
        if "missing" in row and not name.startswith(INTERNAL) and name != "slice"
    ]
    table = "\n".join(["| op | samples that agree | why not all |", "|---|---:|---|", *rows])
    return (
        f"{table}\n\nOps with samples that are not here, internal and sparse ones aside: {listed(missing)}."
    )


def samples_of(name: str, space: str) -> str:
    agree, samples = SAMPLES.get(f"{space}.{name}" if space else name, (0, 0))
    return f"{agree} of {samples}" if samples else ""


def mark(is_so: bool) -> str:
    return "yes" if is_so else ""


def row(face: Face, name: str, space: str) -> str:
    gradient = "no" if face.vjp is NO_GRAD else "yes"
    compiled = "parts" if face.op is None else "called" if face.op.lower is OPAQUE else "native"
    cells = [
        f"`{name}`",
        samples_of(name, space),
        gradient,
        compiled,
        mark(face.method),
        mark(face.inplace is not None),
        mark(face.out),
    ]
    return "| " + " | ".join(cells) + " |"


HEADS = "| name | samples | gradient | compiled | method | in place | out |\n|---|---|---|---|---|---|---|"


def functions(space: str) -> list[str]:
    """A table of the functions of a namespace; the first one that has a function lists it."""
    found = {face.name: face for face in FACES if space in face.spaces}
    if not found:
        return []
    return [HEADS, *(row(found[name], name, space) for name in sorted(found) if name[0] != "_")]


def methods() -> list[str]:
    """Methods that are no functions."""
    found = {face.name: face for face in FACES if face.method and not face.spaces}
    return [HEADS, *(row(found[name], name, "") for name in sorted(found) if name[0] != "_")]


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


def listed(names: list[str], kind: str = "") -> str:
    """Names with the number of their samples, where PyTorch has some: of those that agree where some do not."""

    def counted(name: str) -> str:
        row = AGREEMENT.get(kind, {}).get(name)
        if row is None:
            return f"`{name}`"
        if "missing" in row:
            return f"`{name}` (only in name: it needs sparse tensors)"
        whole = row["agree"] == row["samples"]
        return f"`{name}` ({row['samples'] if whole else str(row['agree']) + ' of ' + str(row['samples'])})"

    return ", ".join(map(counted, names))


def page() -> str:
    version = torch.__version__.split("+")[0]
    opaque = sum(op.lower is OPAQUE for op in OPS.values())
    parts = [
        INTRODUCTION.format(
            version=version,
            agreement=result_tables.agreement(),
            differing=differing(),
            nearer=sum(row.get("nearer to float64", 0) for row in AGREEMENT["ops"].values()),
        )
    ]
    parts.append(
        f"{len(FACES)} functions and methods stand on {len(OPS)} ops; {len(OPS) - opaque} of those are compiled to "
        f"machine code, and {opaque} are called ([why](design/07-opaque-ops.md))."
    )
    for path, title in CLASSES.items():
        here, absent = classes(path)
        kind = KINDS.get(path, "")
        meaning = (
            " (in brackets: PyTorch's samples, all of which agree unless it says otherwise)" if kind else ""
        )
        parts.append(f"## {title}\n\n{len(here)} here{meaning}: {listed(here, kind)}.")
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
