"""Calling a module with other parameters than its own: functional_call.

torch.func.functional_call takes one dictionary or several; torch.nn.utils.stateless has the older form. Read
next: func.py.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.module import Module

NAME = "functional_call"


def tensors_by_name(module: Module) -> dict[str, Tensor]:
    """All parameters and buffers under all their names."""
    found: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def with_ties(own: dict[str, Tensor], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The given tensors also under the other names of the tensors they replace."""
    names: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names.setdefault(id(tensor), []).append(name)
    found = dict(given)
    for name, value in given.items():
        for other in names[id(own[name])] if name in own else ():
            if other in given and given[other] is not value:
                rule = f"functional_call got multiple values for keys {sorted([name, other])}, which are tied"
                raise error(ValueError, NAME, rule, fix="consider using tie_weights=False")
            found[other] = value
    return found


@contextlib.contextmanager
def reparametrized(
    module: Module, given: dict[str, Tensor], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """Inside, the module has the given tensors."""
    own = tensors_by_name(module)
    values = with_ties(own, given) if tie_weights else dict(given)
    if strict:
        check_names(module, own, values)
    before = []
    try:
        for name, value in values.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            table = owner._parameters if last in owner._parameters else owner._buffers
            if last not in table:
                raise error(AttributeError, NAME, f"{owner._get_name()} has no attribute `{last}`")
            before.append((table, last, table[last], name))
            table[last] = value  # type: ignore[assignment]
        yield
    finally:
        for table, last, tensor, name in reversed(before):
            if name in given:
                given[name] = table[last]  # type: ignore[assignment]  # what the call has put there
            table[last] = tensor  # type: ignore[assignment]


def check_names(module: Module, own: dict, values: dict) -> None:
    problems = []
    unexpected = [name for name in values if name not in own]
    missing = [name for name in own if name not in values]
    if unexpected:
        problems.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if missing:
        problems.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if problems:
        rule = f"Error(s) in reparametrizing for {module._get_name()}: " + " ".join(problems)
        raise error(RuntimeError, NAME, rule)


def call_with(
    module: Module, given: Any, args: Any, kwargs: dict[str, Any] | None, tie_weights: bool, strict: bool
) -> Any:
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrized(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The older form of torch.func.functional_call."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a "
        "future version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in "
        "replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return call_with(module, parameters_and_buffers, args, kwargs, tie_weights, strict)


def merged(dictionaries: Any) -> dict[str, Tensor]:
    """One dictionary, or several without a common key, as one."""
    if isinstance(dictionaries, dict):
        return dictionaries
    if not isinstance(dictionaries, Sequence):
        rule = f"expected a dict or a sequence of dicts, but got {type(dictionaries)}"
        raise error(ValueError, NAME, rule)
    found: dict[str, Tensor] = {}
    for each in dictionaries:
        if not isinstance(each, dict):
            raise error(ValueError, NAME, "expected all elements of the sequence to be dictionaries")
        for name, tensor in each.items():
            if name in found:
                raise error(
                    ValueError, NAME, f"{name} appears in multiple dictionaries; behavior is ambiguous"
                )
            found[name] = tensor
    return found
