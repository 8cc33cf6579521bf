"""Normal distributions of vectors: MultivariateNormal by a matrix, LowRankMultivariateNormal by a few columns.

Matrices are kept as they were given, without the batch dimensions that only `loc` has, so that a shared
covariance is factorised once. Read next: distributions/transform.py.
"""

from __future__ import annotations

import math
from typing import Any

import cleargrad as cg
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.distribution import Distribution
from cleargrad.distributions.utils import EMPTY, _standard_normal, lazy_property
from cleargrad.errors import error

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]

LOG_TWO_PI = math.log(2 * math.pi)


def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(lower: Tensor, x: Tensor) -> Tensor:
    """xᵀ (L Lᵀ)⁻¹ x for vectors x with more batch dimensions than L: those become columns to solve for."""
    n, own = x.size(-1), lower.dim() - 2
    extra = x.dim() - 1 - own
    if own == 0:
        columns = x.reshape(-1, n).mT  # n, extra
        return cg.linalg.solve_triangular(lower, columns, upper=False).pow(2).sum(-2).reshape(x.shape[:-1])
    if extra <= 0 or x.shape[extra:-1] != lower.shape[:-2]:
        solved = cg.linalg.solve_triangular(lower, x.unsqueeze(-1), upper=False)
        return solved.squeeze(-1).pow(2).sum(-1)
    flat = x.reshape((-1, *lower.shape[:-2], n)).movedim(0, -1)  # batch of L, n, extra
    solved = cg.linalg.solve_triangular(lower, flat, upper=False).pow(2).sum(-2)
    return solved.movedim(-1, 0).reshape(x.shape[:-1])


def half_log_det(lower: Tensor) -> Tensor:
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def scale_of_precision(precision: Tensor) -> Tensor:
    """The Cholesky factor of P⁻¹: flipping rows and columns turns an upper factor of P into a lower one."""
    flipped = cg.linalg.cholesky(precision.flip(-2, -1))
    inverse = flipped.flip(-2, -1).mT
    identity = cg.eye(precision.shape[-1], dtype=precision.dtype)
    return cg.linalg.solve_triangular(inverse, identity, upper=False)


class MultivariateNormal(Distribution):
    """exp(−(x − loc)ᵀ Σ⁻¹ (x − loc) / 2) / √det 2πΣ; Σ by itself, by its inverse, or by its Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    mean = mode = property(lambda self: self.loc)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise error(ValueError, "MultivariateNormal", "loc must be at least one-dimensional.", loc=loc)
        choices: dict[str, Any] = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: matrix for name, matrix in choices.items() if matrix is not None}
        if len(given) != 1:
            rule = "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            raise error(ValueError, "MultivariateNormal", rule, given=", ".join(given) or "none")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            rule = f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            raise error(ValueError, "MultivariateNormal", rule, **given)
        batch_shape = cg.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        factors = {"covariance_matrix": cg.linalg.cholesky, "precision_matrix": scale_of_precision}
        self._unbroadcasted_scale_tril = factors[name](matrix) if name in factors else matrix

    def _full_matrix(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._full_matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        lower = self._unbroadcasted_scale_tril
        return self._full_matrix(lower @ lower.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return self._full_matrix(cg.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        lower = self._unbroadcasted_scale_tril
        distance = _batch_mahalanobis(lower, self._checked(value) - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_TWO_PI + distance) - half_log_det(lower)

    def entropy(self) -> Tensor:
        log_det = half_log_det(self._unbroadcasted_scale_tril)
        return (0.5 * self._event_shape[0] * (1.0 + LOG_TWO_PI) + log_det).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """A normal with the covariance W Wᵀ + diag(d).

    W is `cov_factor`, n × m with m much smaller than n, and d is `cov_diag`. Determinants and inverses go
    through the small matrix I + Wᵀ diag(1/d) W, whose Cholesky factor is kept as `_capacitance_tril`.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    mean = mode = property(lambda self: self.loc)

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        check_low_rank(loc, cov_factor, cov_diag)
        try:
            columns = cg.broadcast_tensors(loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1))
        except RuntimeError as reason:
            facts: dict[str, Any] = {"loc": loc, "cov_factor": cov_factor, "cov_diag": cov_diag}
            raise error(ValueError, NAME, "Incompatible batch shapes", **facts) from reason
        self.loc, self.cov_factor, self.cov_diag = columns[0][..., 0], columns[1], columns[2][..., 0]
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = cg.linalg.cholesky(plus_one(self._whitened() @ cov_factor))
        super().__init__(self.loc.shape[:-1], self.loc.shape[-1:], validate_args=validate_args)

    def _whitened(self) -> Tensor:
        """Wᵀ diag(1/d)."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def _log_det(self) -> Tensor:
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def _mahalanobis(self, x: Tensor) -> Tensor:
        """Woodbury: xᵀ diag(1/d) x, less what the factor explains."""
        own = (x.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        return own - _batch_mahalanobis(self._capacitance_tril, _batch_mv(self._whitened(), x))

    def _explained(self) -> Tensor:
        """A with Σ⁻¹ = diag(1/d) − Aᵀ A."""
        return cg.linalg.solve_triangular(self._capacitance_tril, self._whitened(), upper=False)

    def _full_matrix(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self) -> Tensor:
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        widths = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / widths
        return self._full_matrix(widths * cg.linalg.cholesky(plus_one(scaled @ scaled.mT)))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_cov_factor
        return self._full_matrix(factor @ factor.mT + cg.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        explained = self._explained()
        diagonal = cg.diag_embed(self._unbroadcasted_cov_diag.reciprocal())
        return self._full_matrix(diagonal - explained.mT @ explained)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape, kind = self._extended_shape(sample_shape), self.loc.dtype
        shared = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], kind)
        own = _standard_normal(shape, kind)
        explained = _batch_mv(self._unbroadcasted_cov_factor, shared)
        return self.loc + explained + self._unbroadcasted_cov_diag.sqrt() * own

    def log_prob(self, value: Tensor) -> Tensor:
        distance = self._mahalanobis(self._checked(value) - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_TWO_PI + self._log_det() + distance)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + LOG_TWO_PI) + self._log_det())
        return entropy.expand(self._batch_shape)


NAME = LowRankMultivariateNormal.__name__


def plus_one(matrix: Tensor) -> Tensor:
    return matrix + cg.eye(matrix.shape[-1], dtype=matrix.dtype)


def check_low_rank(loc: Tensor, cov_factor: Tensor, cov_diag: Tensor) -> None:
    facts: dict[str, Any] = {"loc": loc, "cov_factor": cov_factor, "cov_diag": cov_diag}
    if loc.dim() < 1:
        raise error(ValueError, NAME, "loc must be at least one-dimensional.", **facts)
    if cov_factor.dim() < 2:
        rule = "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
        raise error(ValueError, NAME, rule, **facts)
    event_shape = loc.shape[-1:]
    if cov_factor.shape[-2:-1] != event_shape:
        rule = f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
        raise error(ValueError, NAME, rule, **facts)
    if cov_diag.shape[-1:] != event_shape:
        rule = f"cov_diag must be a batch of vectors with shape {event_shape}"
        raise error(ValueError, NAME, rule, **facts)
