"""Distributions of matrices: LKJCholesky of correlations, by their Cholesky factors, and Wishart of covariances.

Read next: distributions/kl.py.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import cleargrad as cg
from cleargrad.core.dtype import finfo
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.distribution import Distribution
from cleargrad.distributions.exp_family import ExponentialFamily
from cleargrad.distributions.gammas import Beta, Chi2
from cleargrad.distributions.multivariate_normal import half_log_det, scale_of_precision
from cleargrad.distributions.utils import EMPTY, NUMBERS, lazy_property
from cleargrad.errors import error

__all__ = ["LKJCholesky", "Wishart"]


class LKJCholesky(Distribution):
    """Lewandowski, Kurowicka and Joe (2009): det(R)^(concentration − 1), sampled by the onion method."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            rule = f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            raise error(ValueError, "LKJCholesky", rule)
        self.dim = dim
        batch_shape = self._take(concentration=concentration)
        # Row by row: how much of the row's length, which is one, lies off the diagonal.
        kind = self.concentration.dtype
        row = cg.cat([cg.zeros(1, dtype=kind), cg.arange(dim - 1, dtype=kind)])
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(row + 0.5, marginal.unsqueeze(-1) - 0.5 * row)
        super().__init__(batch_shape, Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        with cg.no_grad():
            share = self._beta.sample(sample_shape).unsqueeze(-1)
            normal = cg.randn(self._extended_shape(sample_shape), dtype=share.dtype).tril(-1)
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction[..., 0, :] = 0.0
            rows = share.sqrt() * direction
            rest = (1 - (rows**2).sum(dim=-1)).clamp(min=finfo(rows.dtype).tiny)
            return rows + cg.diag_embed(rest.sqrt())

    def log_prob(self, value: Tensor) -> Tensor:
        diagonal = self._checked(value).diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = cg.arange(2, self.dim + 1)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        below = self.dim - 1
        alpha = self.concentration + 0.5 * below
        normalizer = 0.5 * below * math.log(math.pi) + cg.mvlgamma(alpha - 0.5, below)
        normalizer = normalizer - cg.lgamma(alpha) * below
        return (order * diagonal.log()).sum(dim=-1) - normalizer


class Wishart(ExponentialFamily):
    """The sum of x xᵀ of `df` centred normal vectors x: Σ by itself, by its inverse, or by its Cholesky factor."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        choices: dict[str, Any] = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: matrix for name, matrix in choices.items() if matrix is not None}
        if len(given) != 1:
            rule = "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            raise error(AssertionError, "Wishart", rule, given=", ".join(given) or "none")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            rule = f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            raise error(ValueError, "Wishart", rule, **given)
        size = matrix.shape[-1]
        batch_shape = self._take_df(df, matrix, size)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        factors = {"covariance_matrix": cg.linalg.cholesky, "precision_matrix": scale_of_precision}
        self._unbroadcasted_scale_tril = factors[name](matrix) if name in factors else matrix
        left = cg.arange(size, dtype=matrix.dtype).expand(batch_shape + (-1,))
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - left)

    def _take_df(self, df: Any, matrix: Tensor, size: int) -> Size:
        if isinstance(df, NUMBERS):
            batch_shape = matrix.shape[:-2]
            self.df = cg.as_tensor(df, dtype=matrix.dtype)
        else:
            batch_shape = cg.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        if self.df.le(size - 1).any():
            rule = f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}."
            raise error(ValueError, "Wishart", rule)
        if self.df.lt(size).any():
            text = "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim."
            warnings.warn(text, stacklevel=3)
        return batch_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        lower = self._unbroadcasted_scale_tril
        return (lower @ lower.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        inverse = cg.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand(self._batch_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        return factor.masked_fill(factor <= 0, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (matrix.pow(2) + products)

    def _bartlett_sampling(self, sample_shape: Size) -> Tensor:
        """L A Aᵀ Lᵀ with roots of chi-squares on the diagonal of A and normals below (Bartlett 1934)."""
        size = self._event_shape[-1]
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = roots.clamp(min=finfo(roots.dtype).eps).diag_embed()
        rows, columns = cg.tril_indices(size, size, offset=-1)
        below = Size(sample_shape) + self._batch_shape + (size * (size - 1) // 2,)
        noise[..., rows, columns] = cg.randn(below, dtype=noise.dtype)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _any_of_batch(self, flags: Tensor) -> Tensor:
        return flags.flatten(flags.dim() - len(self._batch_shape)).any(-1) if self._batch_shape else flags

    def rsample(self, sample_shape: Any = EMPTY, max_try_correction: int | None = None) -> Tensor:
        sample = self._bartlett_sampling(Size(sample_shape))
        # PyTorch takes samples that pass this check for singular ones and draws them anew; so that the numbers
        # are its numbers, so do we. From the second draw on the check has its meaning.
        again = self._any_of_batch(self.support.check(sample))
        if again.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
            for _ in range(10 if max_try_correction is None else max_try_correction):
                fresh = self._bartlett_sampling(again[again].shape)
                drawn = again.clone()  # the gradient needs the places as they are now
                sample[drawn] = fresh
                again[drawn] = self._any_of_batch(~self.support.check(fresh))
                if not again.any():
                    break
        return sample

    def log_prob(self, value: Tensor) -> Tensor:
        df, size, lower = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        inner = cg.cholesky_solve(self._checked(value), lower).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        normalizer = df * (size * math.log(2) / 2 + half_log_det(lower)) + cg.mvlgamma(df / 2, p=size)
        return (df - size - 1) / 2 * cg.linalg.slogdet(value).logabsdet - normalizer - inner / 2

    def entropy(self) -> Tensor:
        df, size = self.df, self._event_shape[-1]
        steps = cg.arange(size, dtype=df.dtype) / 2
        mean_log_det = cg.digamma((df / 2).unsqueeze(-1) - steps).sum(-1)
        volume = (size + 1) * (size * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril))
        return volume + cg.mvlgamma(df / 2, p=size) - (df - size - 1) / 2 * mean_log_det + df * size / 2

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        size = self._event_shape[-1]
        half = y + (size + 1) / 2
        return half * (-cg.linalg.slogdet(-2 * x).logabsdet + math.log(2) * size) + cg.mvlgamma(half, p=size)
