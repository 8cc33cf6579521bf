"""torch.utils.dlpack: memory shared with other array libraries. Read next: utils/_pytree.py."""

from __future__ import annotations

from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.interop import from_dlpack as from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that another library can take the tensor's memory from."""
    return tensor.__dlpack__()
