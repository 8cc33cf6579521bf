"""Questions about tensors and shapes that PyTorch answers with top-level functions. They are not ops.

Read next: ops/indexing.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cleargrad.core.dtype import dtype
from cleargrad.core.shape import Size, broadcast, sizes_of
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.creation import factory
from cleargrad.ops.declare import promoted
from cleargrad.ops.views import check_tensor


@factory
def is_tensor(obj: Any, /) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


@factory
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers."""
    check_tensor("is_floating_point", input)
    return input.dtype.is_floating_point


@factory
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    check_tensor("is_complex", input)
    return input.dtype.is_complex


@factory
def is_nonzero(input: Tensor) -> bool:
    """Whether a one-element tensor is not zero."""
    check_tensor("is_nonzero", input)
    return bool(input)


@factory
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode."""
    check_tensor("is_inference", input)
    return input._inference


@factory
def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype an op of these two, tensors or numbers, would give."""
    return promoted("result_type", ("tensor1", "tensor2"), (tensor1, tensor2))


@factory
def numel(input: Tensor) -> int:
    """The number of elements."""
    check_tensor("numel", input)
    return input._form.size


@factory
def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that tensors of these shapes have in common."""
    full = [sizes_of((shape,)) for shape in shapes]
    if any(extent < 0 for shape in full for extent in shape):
        raise error(ValueError, "broadcast_shapes", "a size must not be negative", shapes=str(full))
    return Size(broadcast("broadcast_shapes", *full))


Tensor.is_nonzero = is_nonzero
