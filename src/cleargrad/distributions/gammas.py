"""Waiting times and what is made of them: Exponential, Gamma, Chi2, StudentT, FisherSnedecor, Dirichlet, Beta.

All of them are drawn from gamma numbers (ops/gamma_draws.py), or from exponential ones.
Read next: distributions/trials.py.
"""

from __future__ import annotations

import math
from typing import Any

import cleargrad as cg
from cleargrad.core.dtype import finfo
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.distribution import Distribution
from cleargrad.distributions.exp_family import ExponentialFamily
from cleargrad.distributions.utils import EMPTY, NUMBERS, _standard_normal, broadcast_all
from cleargrad.errors import error
from cleargrad.nn.functional import one_hot
from cleargrad.ops.gamma_draws import _sample_dirichlet, _standard_gamma

__all__ = ["Beta", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma", "StudentT"]


class Exponential(ExponentialFamily):
    """rate · exp(−rate · x), x ≥ 0."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    mean = stddev = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: cg.zeros_like(self.rate))
    variance = property(lambda self: self.rate.pow(-2))

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(rate=rate), validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (-self.rate * self._checked(value)).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -cg.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -cg.log(-x)


class Gamma(ExponentialFamily):
    """rate^α x^(α − 1) exp(−rate · x) / Γ(α), where α is the concentration."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(concentration=concentration, rate=rate), validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # Written behind autograd's back: a value that underflowed is raised, its gradient stays.
        value.detach().clamp_(min=finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(cg.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device))
        alpha = self.concentration
        density = cg.xlogy(alpha, self.rate) + cg.xlogy(alpha - 1, value) - self.rate * value
        return density - cg.lgamma(alpha)

    def cdf(self, value: Tensor) -> Tensor:
        return cg.special.gammainc(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        alpha = self.concentration
        return alpha - self.rate.log() + cg.lgamma(alpha) + (1.0 - alpha) * cg.digamma(alpha)

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return cg.lgamma(x + 1) + (x + 1) * cg.log(-y.reciprocal())


class Chi2(Gamma):
    """The sum of `df` squared standard normals: Gamma(df / 2, 1 / 2)."""

    arg_constraints = {"df": constraints.positive}
    _parameter_names = ("concentration", "rate")

    df = property(lambda self: self.concentration * 2)

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)


class StudentT(Distribution):
    """loc + scale · Z / √(V / df) of a standard normal Z and V from Chi2(df)."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    mode = property(lambda self: self.loc)

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        shape = self._take(df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def variance(self) -> Tensor:
        infinite = cg.where(self.df > 1, math.inf, math.nan).to(self.df.dtype)
        exists = self.df > 2
        df = cg.where(exists, self.df, 3.0)
        return cg.where(exists, self.scale.pow(2) * df / (df - 2), infinite)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        normal = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        spread = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * cg.rsqrt(spread / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        y = (self._checked(value) - self.loc) / self.scale
        df = self.df
        normalizer = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi)
        normalizer = normalizer + cg.lgamma(0.5 * df) - cg.lgamma(0.5 * (df + 1.0))
        return -0.5 * (df + 1.0) * cg.log1p(y**2.0 / df) - normalizer

    def entropy(self) -> Tensor:
        low, high = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = cg.lgamma(low) + math.lgamma(0.5) - cg.lgamma(high)
        slope = high * (cg.digamma(high) - cg.digamma(low))
        return self.scale.log() + slope + 0.5 * self.df.log() + log_beta


class FisherSnedecor(Distribution):
    """The ratio of two variances: Gamma(df1 / 2, df1) / Gamma(df2 / 2, df2)."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        shape = self._take(df1=df1, df2=df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        df2 = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Tensor:
        df2 = self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        above = self._gamma1.rsample(sample_shape)
        below = self._gamma2.rsample(sample_shape)
        tiny = finfo(below.dtype).tiny
        return (above / below.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        normalizer = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        powers = half1 * ratio.log() + (half1 - 1) * value.log()
        return normalizer + powers - (half1 + half2) * cg.log1p(ratio * value)


class Dirichlet(ExponentialFamily):
    """∏ xᵢ^(αᵢ − 1) · Γ(Σ αᵢ) / ∏ Γ(αᵢ) on the simplex; αᵢ are the concentrations."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            rule = "`concentration` parameter must be at least one-dimensional."
            raise error(ValueError, "Dirichlet", rule, concentration=concentration)
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        corners = (self.concentration < 1).all(dim=-1)
        mode[corners] = one_hot(mode[corners].argmax(dim=-1), excess.shape[-1]).to(mode)
        return mode

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        alpha = self.concentration
        powers = cg.xlogy(alpha - 1.0, self._checked(value)).sum(-1)
        return powers + cg.lgamma(alpha.sum(-1)) - cg.lgamma(alpha).sum(-1)

    def entropy(self) -> Tensor:
        alpha, total = self.concentration, self.concentration.sum(-1)
        result = cg.lgamma(alpha).sum(-1) - cg.lgamma(total) - (alpha.size(-1) - total) * cg.digamma(total)
        return result - ((alpha - 1.0) * cg.digamma(alpha)).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - cg.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """x^(α − 1) (1 − x)^(β − 1) / B(α, β): the first share of a Dirichlet of two."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1])
    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self._dirichlet.mode[..., 0])

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        if isinstance(concentration1, NUMBERS) and isinstance(concentration0, NUMBERS):
            pair = cg.as_tensor([float(concentration1), float(concentration0)])
        else:
            pair = cg.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self._dirichlet.log_prob(cg.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return cg.lgamma(x) + cg.lgamma(y) - cg.lgamma(x + y)
