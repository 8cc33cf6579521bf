"""Flatten and Unflatten. Read next: nn/modules/fold.py."""

from __future__ import annotations

from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.module import Module


class Flatten(Module):
    """Makes one dimension of several; by default of all but the first."""

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Makes several dimensions of one."""

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            rule = f"unflattened_size must be tuple of ints, but found type {type(unflattened_size).__name__}"
            raise error(TypeError, "Unflatten", rule)
        for number, extent in enumerate(unflattened_size):
            if not isinstance(extent, int):
                rule = (
                    f"unflattened_size must be tuple of ints, but found {type(extent).__name__} at {number}"
                )
                raise error(TypeError, "Unflatten", rule)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
