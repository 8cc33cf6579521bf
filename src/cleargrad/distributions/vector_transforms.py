"""Transforms of vectors and matrices: simplices, Cholesky factors, reshapes, and several side by side.

Read next: distributions/transforms.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import cleargrad as cg
from cleargrad.core.dtype import finfo
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.distribution import Distribution
from cleargrad.distributions.transform import Transform, check_dimensions, clipped
from cleargrad.distributions.utils import (
    _sum_rightmost,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from cleargrad.errors import error
from cleargrad.nn.functional import logsigmoid, pad, softplus


class ReshapeTransform(Transform):
    """The rightmost dimensions in another shape."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            rule = "in_shape, out_shape have different numbers of elements"
            shapes: dict[str, Any] = {"in_shape": self.in_shape, "out_shape": self.out_shape}
            raise error(ValueError, "ReshapeTransform", rule, **shapes)
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _with_cache(self, cache_size: int) -> ReshapeTransform:
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Size) -> Size:
        return exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Size) -> Size:
        return exchanged(shape, self.out_shape, self.in_shape)


def exchanged(shape: Size, old: Size, new: Size) -> Size:
    check_dimensions(len(shape), len(old))
    cut = len(shape) - len(old)
    if shape[cut:] != old:
        rule = f"Shape mismatch: expected {shape[cut:]} but got {old}"
        raise error(ValueError, "ReshapeTransform", rule)
    return shape[:cut] + new


# Simplices -------------------------------------------------------------------------------------------------


class SoftmaxTransform(Transform):
    """exp x, normalised: onto the simplex, but not one to one."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    def _call(self, x: Tensor) -> Tensor:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Size) -> Size:
        check_dimensions(len(shape), 1)
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """K numbers to K + 1 shares: each number says how much of the rest of a stick is broken off next."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    def _call(self, x: Tensor) -> Tensor:
        z = clipped((x - left_over(x).log()).sigmoid())
        rest = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(rest, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        rest = (1 - shares.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return shares.log() - rest.log() + left_over(shares).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - left_over(x).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Size) -> Size:
        check_dimensions(len(shape), 1)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Size) -> Size:
        check_dimensions(len(shape), 1)
        return shape[:-1] + (shape[-1] - 1,)


def left_over(x: Tensor) -> Tensor:
    """How many shares come after each: zeros are then mapped to equal shares."""
    count = x.shape[-1]
    return count + 1 - x.new_ones(count).cumsum(-1)


# Matrices --------------------------------------------------------------------------------------------------


class LowerCholeskyTransform(Transform):
    """The lower triangle of a matrix, with a diagonal made positive by exp."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """L Lᵀ of the Cholesky factor made of a matrix."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cg.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """D (D − 1) / 2 numbers to the Cholesky factor of a correlation matrix of size D.

    tanh makes partial correlations of the numbers; in each row they break off parts of what is left of the
    row's length, which is one.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        rest = (1 - partial**2).sqrt().cumprod(-1)
        partial = partial + cg.eye(partial.shape[-1], dtype=x.dtype)
        return partial * pad(rest[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        rest = 1 - (y * y).cumsum(dim=-1)
        before = tril_matrix_to_vec(pad(rest[..., :-1], [1, 0], value=1), diag=-1)
        partial = tril_matrix_to_vec(y, diag=-1) / before.sqrt()
        return (partial.log1p() - partial.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        rest = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)
        return 0.5 * rest.log().sum(-1) + tanh

    def forward_shape(self, shape: Size) -> Size:
        check_dimensions(len(shape), 1)
        size = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            rule = "Input is not a flattened lower-diagonal number"
            raise error(ValueError, "CorrCholeskyTransform", rule, shape=shape)
        return shape[:-1] + (size, size)

    def inverse_shape(self, shape: Size) -> Size:
        check_dimensions(len(shape), 2)
        if shape[-2] != shape[-1]:
            raise error(ValueError, "CorrCholeskyTransform", "Input is not square", shape=shape)
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


# Side by side ----------------------------------------------------------------------------------------------


class SideBySide(Transform):
    """Several transforms, each on its own part of one dimension."""

    dim: int

    bijective = property(lambda self: all(part.bijective for part in self.transforms))

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(part, Transform) for part in tseq):
            raise AssertionError("every part must be a Transform")
        super().__init__(cache_size=cache_size)
        self.transforms = [part.with_cache(cache_size) for part in tseq] if cache_size else list(tseq)
        self.dim = dim

    def _parts(self, value: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _joined(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _check(self, value: Tensor, length: int) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} is out of range for a tensor of {value.dim()} dimensions")
        if value.size(self.dim) != length:
            raise AssertionError(f"size({self.dim}) is {value.size(self.dim)} and must be {length}")

    def _each(self, apply: Callable, *values: Tensor) -> list[Tensor]:
        parts = zip(*[self._parts(value) for value in values], strict=True)
        return [apply(transform, *part) for transform, part in zip(self.transforms, parts, strict=True)]

    def _call(self, x: Tensor) -> Tensor:
        return self._joined(self._each(lambda transform, part: transform(part), x))

    def _inverse(self, y: Tensor) -> Tensor:
        return self._joined(self._each(lambda transform, part: transform.inv(part), y))


class CatTransform(SideBySide):
    """Transforms of stretches of a dimension, `lengths` long."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{len(self.transforms)} transforms but {len(self.lengths)} lengths")

    @lazy_property
    def event_dim(self) -> int:
        return max(part.event_dim for part in self.transforms)

    @lazy_property
    def length(self) -> int:
        return sum(self.lengths)

    def _with_cache(self, cache_size: int) -> CatTransform:
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Tensor) -> Sequence[Tensor]:
        self._check(value, self.length)
        return value.split(self.lengths, self.dim)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return cg.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        def one(part: Transform, before: Tensor, after: Tensor) -> Tensor:
            return _sum_rightmost(part.log_abs_det_jacobian(before, after), self.event_dim - part.event_dim)

        terms = self._each(one, x, y)
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        # A dimension inside the event has been summed over already.
        return cg.cat(terms, dim=dim) if dim < 0 else sum(terms[1:], start=terms[0])

    @constraints.dependent_property
    def domain(self) -> constraints.Constraint:
        return constraints.cat([part.domain for part in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> constraints.Constraint:
        return constraints.cat([part.codomain for part in self.transforms], self.dim, self.lengths)


class StackTransform(SideBySide):
    """One transform for each index of a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def _with_cache(self, cache_size: int) -> StackTransform:
        return StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, value: Tensor) -> Sequence[Tensor]:
        self._check(value, len(self.transforms))
        return value.unbind(self.dim)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return cg.stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._joined(self._each(lambda part, *pair: part.log_abs_det_jacobian(*pair), x, y))

    @constraints.dependent_property
    def domain(self) -> constraints.Constraint:
        return constraints.stack([part.domain for part in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> constraints.Constraint:
        return constraints.stack([part.codomain for part in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """The cdf of a distribution: its samples become uniform."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    domain = property(lambda self: self.distribution.support)

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def _with_cache(self, cache_size: int) -> CumulativeDistributionTransform:
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
