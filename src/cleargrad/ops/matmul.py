"""Matrix products.

Read next: ops/linear_algebra.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cleargrad.core.dtype import NARROW, OF_NUMPY
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import F32, binary_door, face, opaque
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor


def matmul_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(4, 2, seed=1))
    yield Sample(real(4), real(4, seed=1))
    yield Sample(real(3, 4), real(4, seed=1))
    yield Sample(real(4), real(4, 2, seed=1))
    yield Sample(real(2, 3, 4), real(2, 4, 5, seed=1))
    yield Sample(real(2, 1, 3, 4), real(5, 4, 2, seed=1))
    yield Sample(real(2, 3, 4), real(4, seed=1))
    yield Sample(real(3, 0), real(0, 2, seed=1))
    yield Fails(RuntimeError, real(3, 4), real(3, 4))
    yield Fails(RuntimeError, real(), real(3))


def matmul_spec(x: Tensor, y: Tensor) -> Spec:
    a, b = x._data.shape, y._data.shape
    if x._data.dtype != y._data.dtype:
        raise error(RuntimeError, "matmul", "expected both operands to have the same dtype", input=x, other=y)
    if not a or not b:
        raise error(RuntimeError, "matmul", "both arguments need to be at least 1D", input=x, other=y)
    if a[-1] != b[max(len(b) - 2, 0)]:
        rule = "the last dimension of `input` must equal the second-to-last of `other`"
        raise error(RuntimeError, "matmul", rule, input=x, other=y)
    batch = broadcast("matmul", a[:-2], b[:-2])
    return Spec((*batch, *a[-2:-1], *(b[-1:] if len(b) > 1 else ())), OF_NUMPY[x._data.dtype])


def run_matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype is not y.dtype and x.dtype != y.dtype:
        raise TypeError("operands differ in dtype")
    if x.dtype in NARROW:
        return np.matmul(x.astype(F32), y.astype(F32)).astype(x.dtype)
    return np.matmul(x, y)


VJP = (lambda g, y: g @ y.transpose(-2, -1), lambda g, x: x.transpose(-2, -1) @ g)
bmm_op = opaque("bmm", spec=matmul_spec, run=run_matmul, vjp=VJP, samples=matmul_samples, spec_first=False)
mm_op = opaque("mm", spec=matmul_spec, run=run_matmul, vjp=VJP, samples=matmul_samples, spec_first=False)
# Small products are frequent; the flat door and `dot` cost half of the general door and np.matmul.
mm_op = binary_door(mm_op.op, np.ndarray.dot)  # type: ignore[attr-defined]


@face(mm_op, method=True, out=True)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product of the last two dimensions; earlier ones are batches and broadcast."""
    try:
        a, b = input._data.ndim, other._data.ndim
    except AttributeError:
        check_tensor("matmul", input)
        check_tensor("matmul", other, "other")
        raise
    if a == 2 and b == 2:
        return mm_op(input, other)
    if a >= 2 and b >= 2:
        return bmm_op(input, other)
    matmul_spec(input, other)
    if a == 1 and b == 1:
        return (input * other).sum()
    if a == 1:
        return matmul(input.unsqueeze(0), other).squeeze(-2)
    return matmul(input, other.unsqueeze(-1)).squeeze(-1)
