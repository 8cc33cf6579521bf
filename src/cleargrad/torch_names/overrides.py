"""torch.overrides: functions replaced by classes with `__torch_function__`, which cleargrad does not consult.

Programs that ask whether a replacement exists hear that there is none. Read next: compiler.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.missing import all_missing


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an argument replaces functions: never."""
    return False


def has_torch_function_unary(relevant_arg: Any) -> bool:
    return False


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    return False


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or of a class that takes the place of one."""
    return isinstance(inp, Tensor) or getattr(type(inp), "__torch_function__", None) is not None


def handle_torch_function(
    public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Calls the first replacement among the arguments."""
    relevant = tuple(relevant_args)
    for argument in relevant:
        replace = getattr(type(argument), "__torch_function__", None)
        if replace is not None:
            return replace(public_api, tuple(map(type, relevant)), args, kwargs)
    raise TypeError(f"no implementation found for {public_api} on types that implement __torch_function__")


globals().update(
    all_missing(
        "torch.overrides",
        "TorchFunctionMode get_overridable_functions get_testing_overrides get_ignored_functions "
        "wrap_torch_function",
        "replace functions by __torch_function__",
    )
)
