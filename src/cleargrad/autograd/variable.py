"""torch.autograd.variable: Variable, a Tensor's name before tensors had gradients themselves.

`Variable(data, requires_grad=True)` gives a tensor on the same memory with no history; nothing has the type
Variable itself. Read next: core/tensor.py.
"""

from __future__ import annotations

import warnings
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error


class VariableKind(type):
    """Makes every tensor an instance of Variable."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=VariableKind):
    """A tensor that shares `data`'s memory, outside the graph that made it."""

    def __new__(  # type: ignore[misc]
        cls,
        data: Tensor | None = None,
        requires_grad: bool = False,
        volatile: bool = False,
        _grad_fn: Any = None,
        name: str | None = None,
    ) -> Tensor:
        if volatile:
            rule = "volatile has no effect any more; compute under `with torch.no_grad():` instead."
            warnings.warn(rule, UserWarning, stacklevel=2)
        if data is not None and not isinstance(data, Tensor):
            rule = f"Variable data has to be a tensor, but got {type(data).__name__}"
            raise error(TypeError, "Variable", rule, fix="torch.tensor(data, requires_grad=...)")
        made = Tensor() if data is None else data.detach()
        return made.requires_grad_() if requires_grad else made


__all__ = ["Variable"]
