"""The API reference, one page of Markdown per namespace, from signatures and docstrings.

Static tools see little of a package whose functions are declared and whose modules load late, so this asks the
package itself. Nothing is written: tools/site_hooks.py hands the pages to mkdocs.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, NoReturn

from cleargrad import Tensor
from cleargrad.expr.expr import Expr
from cleargrad.missing import MissingModule, StandIn
from cleargrad.ops.op import FACES
from cleargrad.optim.rule import RuleOptimizer

# Namespaces, and what they are; those without __all__ show what their modules define.
PAGES = {
    "cleargrad": "Tensors and functions",
    "cleargrad.Tensor": "Methods of tensors",
    "cleargrad.nn": "Modules",
    "cleargrad.nn.functional": "Functions of networks",
    "cleargrad.nn.init": "Starting values",
    "cleargrad.nn.utils": "Clipping, parametrizations and more",
    "cleargrad.optim": "Optimizers",
    "cleargrad.optim.lr_scheduler": "Schedulers",
    "cleargrad.optim.swa_utils": "Averaged weights",
    "cleargrad.autograd": "Differentiation",
    "cleargrad.amp": "Mixed precision",
    "cleargrad.utils.data": "Loading data",
    "cleargrad.utils.checkpoint": "Activations computed again",
    "cleargrad.linalg": "Linear algebra",
    "cleargrad.fft": "Fourier transforms",
    "cleargrad.special": "Special functions",
    "cleargrad.distributions": "Distributions",
    "cleargrad.func": "Functions of functions",
    "cleargrad.doctor": "The doctor",
    "cleargrad.datasets": "Data that ships with the package",
    "cleargrad.testing": "Tests",
}
# Classes that are used through their methods, which their entries list.
WITH_METHODS = (
    "Module",
    "Optimizer",
    "LRScheduler",
    "GradScaler",
    "DataLoader",
    "Session",
    "Function",
    "Generator",
)
OF_A_SESSION = ("attach", "detach", "report", "save")  # its others are for rules and adapters
FORMULAS = {face.name: str(face.op.lower) for face in FACES if face.op and isinstance(face.op.lower, Expr)}
LATE = ("accumulate", "compile", "save", "load", "autocast", "get_num_threads", "set_num_threads")


def find(path: str) -> Any:
    """A module, or a class inside one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        place, _, name = path.rpartition(".")
        return getattr(importlib.import_module(place), name)


def names_in(place: Any) -> list[str]:
    names = set(getattr(place, "__all__", None) or vars(place))
    if place.__name__ == "cleargrad":
        names |= set(LATE)
    if inspect.isclass(place):
        names = {name for base in place.__mro__[:-1] for name in vars(base)}
    return sorted((name for name in names if not name.startswith("_")), key=str.lower)


def members(place: Any) -> Iterator[tuple[str, Any]]:
    """Public functions and classes of cleargrad's own; what a module only imported from elsewhere is left out."""
    for name in names_in(place):
        value = getattr(place, name, None)
        if isinstance(value, StandIn | MissingModule) or inspect.ismodule(value) or not callable(value):
            continue
        if refuses(value):
            continue
        if str(getattr(value, "__module__", "cleargrad")).startswith("cleargrad"):
            yield name, value


def refuses(value: Any) -> bool:
    """Whether a function only says that there is no such thing here."""
    return inspect.isfunction(value) and value.__annotations__.get("return") in ("NoReturn", NoReturn)


def unwrapped(value: Any) -> Any:
    """The function inside those that only see to autocast or to other names of arguments."""
    while inspect.isfunction(value):
        inside = inspect.getclosurevars(value).nonlocals
        inner = next(
            (inside[name] for name in ("function", "published") if inspect.isfunction(inside.get(name))), None
        )
        takes_anything = list(inspect.signature(value).parameters) == ["args", "kwargs"]
        if inner is None or inner is value or not takes_anything:
            break
        value = inner
    return value


def explained(name: str, value: Any) -> str:
    """The docstring; for a function without one the formula of an element; for an optimizer also its rule."""
    text = words(value)
    if not text and name in FORMULAS:
        return f"Element by element: `{FORMULAS[name]}`."
    if (
        inspect.isclass(value)
        and issubclass(value, RuleOptimizer)
        and value._update.__doc__ not in (None, text)
    ):
        text += f"\n\n{words(value._update)}"
    return text


def methods(name: str, value: Any) -> str:
    """The public methods of a class that has any to show, as a list."""
    if name not in WITH_METHODS or not inspect.isclass(value):
        return ""
    found = [
        f"- `{method}{signature(getattr(value, method))}`: {short(getattr(value, method))}"
        for method in names_in(value)
        if callable(getattr(value, method)) and getattr(value, method).__doc__
        if name != "Session" or method in OF_A_SESSION
    ]
    return "\n\n" + "\n".join(found).replace("`(self, ", "`(").replace("(self, ", "(").replace("(self)", "()")


def short(value: Any) -> str:
    return " ".join(words(value).split("\n\n")[0].split())


def signature(value: Any) -> str:
    try:
        found = inspect.signature(unwrapped(value))
    except (TypeError, ValueError):
        return "(...)"
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in found.parameters.values()]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r"<([\w.]+)[^<>]*>", r"\1", text)  # defaults that are objects


def words(value: Any) -> str:
    """The docstring as Markdown; what is indented in it is code."""
    text = inspect.cleandoc(value.__doc__) if value.__doc__ else ""
    parts = []
    for part in paragraphs(text):
        is_code = part.startswith("    ")
        parts.append(f"```py\n{textwrap.dedent(part)}\n```" if is_code else as_markdown(part))
    return "\n\n".join(parts)


def as_markdown(text: str) -> str:
    """A sentence of a docstring: what looks like HTML is text, and files are code."""
    text = re.sub(r"<([^>`]*)>", r"&lt;\1&gt;", text)
    return re.sub(r"(?<![`\w/])(\w+(?:/\w+)*\.py)\b(?!`)", r"`\1`", text)


def paragraphs(text: str) -> list[str]:
    """Plain and indented parts of a text, in turn."""
    parts: list[list[str]] = [[]]
    was_code = False
    for line in text.splitlines():
        is_code = line.startswith("    ") if line.strip() else was_code
        if is_code != was_code:
            parts.append([])
        parts[-1].append(line)
        was_code = is_code
    return [found for part in parts if (found := "\n".join(part).strip("\n"))]


def entry(name: str, value: Any) -> str:
    indented = (explained(name, value) + methods(name, value)).replace("\n", "\n    ")
    return f"<span id='{name}'></span>`{name}{signature(value)}`\n:   {indented}\n"


def unexplained(found: list[tuple[str, Any]]) -> list[str]:
    """Names without a docstring, on one line each."""
    in_place = [(name, value) for name, value in found if name.endswith("_")]
    others = [pair for pair in found if pair not in in_place]
    parts = [
        (
            "In place",
            "Each writes what the function without the underscore gives into the tensor itself.",
            in_place,
        ),
        ("As in PyTorch", "These do what PyTorch's of the same name do.", others),
    ]
    lines = []
    for title, words, names in parts:
        if names:
            listed = [f"{name}{signature(plain_form(name, value))}" for name, value in names]
            listed = [line.replace("(self, ", "(").replace("(self)", "()") for line in listed]
            lines += [f"## {title}", "", words, "", "```py", *listed, "```", ""]
    return lines


def plain_form(name: str, value: Any) -> Any:
    """The method whose arguments an in-place method takes; any other function itself."""
    method = getattr(Tensor, name.removesuffix("_"), None)
    return method if name.endswith("_") and inspect.isfunction(method) else value


def page(path: str) -> str:
    place = find(path)
    first = words(place)
    opening = re.sub(r"Read next:.*", "", first, flags=re.S).strip()
    title = (
        f"# {path.removeprefix('cleargrad.')}: {PAGES[path]}" if path != "cleargrad" else f"# {PAGES[path]}"
    )
    found = list(members(place))
    entries = [entry(name, value) for name, value in found if explained(name, value)]
    rest = unexplained([(name, value) for name, value in found if not explained(name, value)])
    text = "\n".join([title, "", opening, "", *entries, *rest])
    return as_methods(text) if place is Tensor else text


def as_methods(text: str) -> str:
    """Signatures without the tensor that a method belongs to, which stands before its dot."""
    text = re.sub(
        r"(?m)^((?:<span id='\w+'></span>`)?\w+\()(?:input|self)(?:, (?!\*, out=None\))|(?=\)))", r"\1", text
    )
    return re.sub(r"(?m)^((?:<span id='\w+'></span>`)?\w+)\(input, \*, out=None\)", r"\1()", text)


def overview() -> str:
    rows = [f"| [`{path}`]({file_of(path)}) | {title} |" for path, title in PAGES.items()]
    return "\n".join(
        [
            "# API reference",
            "",
            "From the signatures and docstrings of this version. Names, arguments and meaning are PyTorch's, so",
            "most entries are one sentence; [the support table](../support.md) says what is missing.",
            "",
            "| namespace | what it has |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def file_of(path: str) -> str:
    return f"{path.removeprefix('cleargrad.').replace('.', '-').lower()}.md"


def pages() -> dict[str, str]:
    """Every page of the reference by its file name."""
    return {"index.md": overview(), **{file_of(path): page(path) for path in PAGES}}
