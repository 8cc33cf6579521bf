"""Reductions: sums, products, extremes, means and norms over dimensions.

Read next: ops/sorting.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of, make_node
from cleargrad.codegen import expr
from cleargrad.core.dtype import dtype as Dtype
from cleargrad.core.mode import SPECIAL, mode
from cleargrad.core.shape import wrap_dims
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.ops.declare import F32, F64, composite, face, reduction
from cleargrad.ops.samples import Sample, real, reductions
from cleargrad.ops.views import check_tensor


def restore(g: Tensor, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """Puts reduced dimensions back as size-one dimensions, so that a gradient broadcasts to the input."""
    if keepdim:
        return g
    for axis in sorted(dim):
        g = g.unsqueeze(axis)
    return g


total = reduction(
    "sum",
    lambda x, y: x + y,
    start=0,
    result="sum",
    vjp=lambda g, *, x_shape, dim, keepdim: restore(g, dim, keepdim).expand(x_shape),
    samples=reductions(),
)


@face(total, method=True, out=True)
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Dtype | None = None) -> Tensor:
    """The sum of all elements, or over dimensions; integers sum to int64."""
    if dim is None and dtype is None and not keepdim and isinstance(input, Tensor):
        return sum_everything(input)
    check_tensor("sum", input)
    if dtype is not None:
        input = input.to(dtype)
    return total(input, dim=wrap_dims("sum", dim, input._data.ndim), keepdim=keepdim)


_plan = total.op.plan((True,))  # type: ignore[attr-defined]
_node = total.op.node  # type: ignore[attr-defined]
_ones: dict = {}


def sum_everything(input: Tensor) -> Tensor:
    """`input.sum()`, the end of most losses, written out flat."""
    data = input._data
    kind = data.dtype
    how = mode.how
    dims = tuple(range(data.ndim))
    if how == SPECIAL or not (kind is F32 or kind is F64) or not data.flags.c_contiguous or data.size > 1024:
        return total(input, dim=dims, keepdim=False)
    # A dot product with ones is the quickest sum NumPy has for a small array.
    ones = _ones.get((data.size, kind))
    if ones is None:
        ones = _ones[data.size, kind] = np.ones(data.size, kind)
    value = np.asarray(data.reshape(-1).dot(ones))
    tensor = wrap(value)
    if how:
        edge = input._edge if input._base is None else edge_of(input)
        if edge is not None:
            tensor._edge = node = make_node(_node, (edge,), (), _plan, (), kind)
            node.attrs = {"dim": dims, "keepdim": False}
    return tensor


@composite(lambda: iter([Sample(real(3, 4), (1, 4)), Sample(real(3, 4), (4,)), Sample(real(2, 3, 4), (3, 1))]), method=True,
           reference=lambda torch: torch.Tensor.sum_to_size)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sums what broadcasting `size` to this shape would repeat."""
    from cleargrad.core.shape import sizes_of

    target = sizes_of(size)
    shape = input._data.shape
    if shape == target:
        return input
    lead = len(shape) - len(target)
    dims = tuple(k for k in range(len(shape)) if k < lead or (target[k - lead] == 1 and shape[k] != 1))
    result = total(input, dim=dims, keepdim=True)
    return result.reshape(target) if lead else result
