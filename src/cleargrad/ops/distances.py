"""Distances and similarities between vectors, and covariances.

Read next: ops/fourier.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np

from cleargrad.core.dtype import FLOAT, INTEGER, OF_NUMPY, get_default_dtype
from cleargrad.core.shape import Spec, broadcast, wrap_dim
from cleargrad.core.tensor import Tensor, wrap_beside
from cleargrad.errors import error
from cleargrad.ops.declare import composite, fused
from cleargrad.ops.matmul import transposed
from cleargrad.ops.norms import vector_norm_op
from cleargrad.ops.pointwise import conj
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor


def length(x: Tensor, p: float, dim: int = -1, keepdim: bool = False) -> Tensor:
    """The p-norm along one dimension."""
    return vector_norm_op(
        x, ord=p, dim=(dim % max(x._form.ndim, 1),) if x._form.ndim else (), keepdim=keepdim
    )


# All pairs -------------------------------------------------------------------------------------------------


def euclidean_spec(x1: Tensor, x2: Tensor) -> Spec:
    a, b = x1._form.shape, x2._form.shape
    return Spec((*broadcast("cdist", a[:-2], b[:-2]), a[-2], b[-2]), x1.dtype)


def euclidean_vjp(g: Tensor, x1: Tensor, x2: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    ratio = (g / out).masked_fill(out == 0, 0)
    back = transposed(ratio)
    return (
        x1 * ratio.sum(-1, keepdim=True) - ratio @ x2,
        x2 * back.sum(-1, keepdim=True) - back @ x1,
    )


def euclidean_parts(x1: Tensor, x2: Tensor) -> Tensor:
    """√(|x|² + |y|² − 2·x·y): one matrix product instead of all differences."""
    squares1 = (x1 * x1).sum(-1).unsqueeze(-1)
    squares2 = (x2 * x2).sum(-1).unsqueeze(-2)
    return (squares1 + squares2 - 2 * (x1 @ transposed(x2))).clamp(min=0).sqrt()


euclidean = fused(
    "euclidean_dist",
    euclidean_parts,
    spec=euclidean_spec,
    vjp=euclidean_vjp,
    samples=lambda: iter([Sample(real(3, 2), real(4, 2, seed=1)), Sample(real(2, 3, 2), real(4, 2, seed=1))]),
)


def cdist_samples() -> Iterator[Sample]:
    for p in (2.0, 1.0, 0.0, 0.5, 1.5, 3.0, inf):
        yield Sample(real(3, 2), real(4, 2, seed=1), p)
    yield Sample(real(2, 1, 3, 2), real(4, 2, seed=1))
    yield Sample(real(3, 2), real(4, 2, seed=1), compute_mode="use_mm_for_euclid_dist")
    yield Sample(real(0, 2), real(4, 2, seed=1))
    yield Fails(RuntimeError, real(3, 2), real(4, 3))
    yield Fails(RuntimeError, real(3), real(4, 3))
    yield Fails(RuntimeError, real(3, 2), real(4, 2), -1.0)


MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
MANY = 25  # rows from which PyTorch, and so we, take the matrix product by default


@composite(cdist_samples)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = MODES[0]) -> Tensor:
    """The p-norm of x − y for every row x of `x1` and y of `x2`."""
    check_tensor("cdist", x1, "x1")
    check_tensor("cdist", x2, "x2")
    a, b = x1._form.shape, x2._form.shape
    if min(len(a), len(b)) < 2 or a[-1] != b[-1]:
        rule = "expected two stacks of rows of the same length, with at least 2 dimensions"
        raise error(RuntimeError, "cdist", rule, x1=x1, x2=x2)
    if x1._form.dtype != x2._form.dtype or OF_NUMPY[x1._form.dtype].category != FLOAT:
        raise error(RuntimeError, "cdist", "expected two tensors of one floating-point dtype", x1=x1, x2=x2)
    if p < 0:
        raise error(RuntimeError, "cdist", f"cdist only supports non-negative p values, not {p}")
    if compute_mode not in MODES:
        raise error(ValueError, "cdist", f"{compute_mode} is not a valid value for compute_mode")
    many = compute_mode == MODES[1] or (compute_mode == MODES[0] and max(a[-2], b[-2]) > MANY)
    if p == 2 and many:
        return euclidean(x1, x2)
    return length(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def pdist_samples() -> Iterator[Sample]:
    for p in (2.0, 1.0, 0.5, 3.0, inf):
        yield Sample(real(4, 3), p)
    yield Sample(real(1, 3))
    yield Fails(RuntimeError, real(2, 3, 3))
    yield Fails(RuntimeError, real(3, 3), -1.0)


@composite(pdist_samples, spaces=("", "nn.functional"))
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows, in the order (0, 1), (0, 2), …"""
    check_tensor("pdist", input)
    if input._form.ndim != 2:
        raise error(RuntimeError, "pdist", "pdist only supports 2D tensors", input=input)
    if p < 0:
        raise error(RuntimeError, "pdist", f"pdist only supports non-negative p values, not {p}")
    first, second = (wrap_beside(index, input) for index in np.triu_indices(input._form.shape[0], 1))
    return length(input[first] - input[second], p)


# Pairs -----------------------------------------------------------------------------------------------------


def dist_samples() -> Iterator[Sample]:
    for p in (2, 1, 0.5, 3, inf, 0):
        yield Sample(real(2, 3), real(2, 3, seed=1), p)
    yield Sample(real(2, 3), real(3, seed=1))
    yield Fails(RuntimeError, real(2, 3), real(2))


@composite(dist_samples, method=True)
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input − other."""
    check_tensor("dist", input)
    check_tensor("dist", other, "other")
    difference = input - other
    return vector_norm_op(difference, ord=p, dim=tuple(range(difference._form.ndim)), keepdim=False)


def pairwise_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, 4, seed=1))
    yield Sample(real(3, 4), real(4, seed=1), 1.0, 1e-3, True)
    yield Sample(real(4), real(4, seed=1), p=3.0)
    yield Fails(RuntimeError, real(3, 4), real(3, 3))


@composite(pairwise_samples, spaces=("", "nn.functional"))
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 − x2 + eps along the last dimension."""
    check_tensor("pairwise_distance", x1, "x1")
    check_tensor("pairwise_distance", x2, "x2")
    return length(x1 - x2 + eps, p, -1, keepdim)


def similarity_samples() -> Iterator[Sample]:
    yield Sample(real(3, 4), real(3, 4, seed=1))
    yield Sample(real(3, 4), real(1, 4, seed=1), 1)
    yield Sample(real(2, 3, 2), real(3, 2, seed=1), dim=1, eps=1e-4)
    yield Fails(RuntimeError, real(3, 4), real(3, 3))
    yield Fails(IndexError, real(3, 4), real(3, 4), 2)
    yield Fails(RuntimeError, whole(3), whole(3), 0)


@composite(similarity_samples, spaces=("", "nn.functional"))
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1·x2 / (max(‖x1‖, eps) · max(‖x2‖, eps)) along a dimension."""
    check_tensor("cosine_similarity", x1, "x1")
    check_tensor("cosine_similarity", x2, "x2")
    product = x1 * x2
    if OF_NUMPY[product._form.dtype].category < FLOAT:
        raise error(RuntimeError, "cosine_similarity", "expected a floating point dtype", x1=x1, x2=x2)
    shape = product._form.shape
    x1, x2 = (x.to(product.dtype).expand(shape) for x in (x1, x2))
    dim = wrap_dim("cosine_similarity", dim, len(shape))
    lengths = [
        vector_norm_op(x, ord=2, dim=(dim,) if shape else (), keepdim=True).clamp(min=eps) for x in (x1, x2)
    ]
    return ((x1 / lengths[0]) * (x2 / lengths[1])).sum(dim)


# Covariance ------------------------------------------------------------------------------------------------


def cov_samples() -> Iterator[Sample]:
    yield Sample(real(3, 5))
    yield Sample(real(5))
    yield Sample(real(3, 5), correction=0)
    yield Sample(real(3, 5), fweights=whole(5, low=1))
    yield Sample(real(3, 5), aweights=real(5, low=0.5, high=2.0))
    yield Fails(RuntimeError, real(2, 3, 4))
    yield Fails(RuntimeError, real(3, 5), fweights=real(5))


@composite(cov_samples, method=True)
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of the rows' variables; columns are observations, repeated or weighted when asked."""
    check_tensor("cov", input)
    if input._form.ndim > 2:
        raise error(RuntimeError, "cov", "expected input to have two or fewer dimensions", input=input)
    x = input.reshape(1, -1) if input._form.ndim < 2 else input
    if OF_NUMPY[x._form.dtype].category <= INTEGER:
        x = x.to(get_default_dtype())
    observations = x._form.shape[1]
    check_weights(fweights, aweights, observations)
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weights is None:
        total: Any = observations
        average = x.mean(1, keepdim=True)
        factor: Any = total - correction
        weighted = x - average
    else:
        total = weights.sum()
        average = (x * weights).sum(1, keepdim=True) / total
        squares = total if aweights is None else (weights * aweights).sum() / total
        factor = total - (correction if aweights is None else correction * squares)
        weighted = (x - average) * weights
    factor = factor.clamp(min=0) if isinstance(factor, Tensor) else max(factor, 0)
    return (weighted @ conj(transposed(x - average)) / factor).squeeze()


def check_weights(fweights: Tensor | None, aweights: Tensor | None, observations: int) -> None:
    for name, weights in {"fweights": fweights, "aweights": aweights}.items():
        if weights is None:
            continue
        facts: dict[str, Any] = {name: weights}
        if weights._form.shape != (observations,):
            raise error(RuntimeError, "cov", f"expected {name} for {observations} observations", **facts)
        if (OF_NUMPY[weights._form.dtype].category <= INTEGER) != (name == "fweights"):
            rule = "expected fweights of an integer dtype and aweights of a floating point dtype"
            raise error(RuntimeError, "cov", rule, **facts)


def corrcoef_samples() -> Iterator[Sample]:
    yield Sample(real(3, 5))
    yield Sample(real(5))
    yield Fails(RuntimeError, real(2, 3, 4))


@composite(corrcoef_samples, method=True)
def corrcoef(input: Tensor) -> Tensor:
    """The correlation coefficients of the rows' variables."""
    check_tensor("corrcoef", input)
    if input._form.ndim > 2:
        raise error(RuntimeError, "corrcoef", "expected input to have two or fewer dimensions", input=input)
    covariances = cov(input)
    if not covariances._form.ndim:
        return covariances / covariances
    deviations = (
        covariances.diagonal().real.sqrt()
        if covariances._form.dtype.kind == "c"
        else covariances.diagonal().sqrt()
    )
    return covariances / deviations.unsqueeze(1) / deviations.unsqueeze(0)
