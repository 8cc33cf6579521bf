"""torch._utils: several tensors as one vector, and back, for programs that send them together.

Read next: torch_names/compiler.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from cleargrad.core.tensor import Tensor
from cleargrad.ops.joining import cat


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements, one tensor after the other."""
    return cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Parts of a vector in the shapes of tensors."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))
