"""Distributions that are transforms of others: LogNormal, the halves, Gumbel, Weibull, Pareto and their kin.

Each says what it is made of in `__init__`; samples and densities follow. Read next: distributions/relaxed.py.
"""

from __future__ import annotations

import math
from typing import Any

import cleargrad as cg
from cleargrad.core.dtype import finfo
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.compound import TransformedDistribution
from cleargrad.distributions.gammas import Exponential, Gamma
from cleargrad.distributions.location_scale import Cauchy, Normal, Uniform
from cleargrad.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
)
from cleargrad.distributions.utils import NUMBERS, euler_constant

__all__ = [
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "InverseGamma",
    "Kumaraswamy",
    "LogNormal",
    "LogisticNormal",
    "Pareto",
    "Weibull",
]


class LogNormal(TransformedDistribution):
    """exp X of a normal X."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        normal = Normal(loc, scale, validate_args=validate_args)
        super().__init__(normal, ExpTransform(), validate_args=validate_args)

    @property
    def variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Shares of a stick, broken by normals."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        normal = Normal(loc, scale, validate_args=validate_args)
        if not normal.batch_shape:
            normal = normal.expand([1])
        super().__init__(normal, StickBreakingTransform(), validate_args=validate_args)


class Half(TransformedDistribution):
    """|X| of an X that is symmetric about zero: the density doubles."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    scale = property(lambda self: self.base_dist.scale)
    mode = property(lambda self: cg.zeros_like(self.scale))

    def log_prob(self, value: Any) -> Tensor:
        log_prob = self.base_dist.log_prob(self._checked(value)) + math.log(2)
        return cg.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Half):
    """|X| of a normal X."""

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        normal = Normal(0, scale, validate_args=False)
        super().__init__(normal, AbsTransform(), validate_args=validate_args)


class HalfCauchy(Half):
    """|X| of a Cauchy X."""

    mean = property(lambda self: self._full(math.inf, self.scale))
    variance = property(lambda self: self.base_dist.variance)

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        cauchy = Cauchy(0, scale, validate_args=False)
        super().__init__(cauchy, AbsTransform(), validate_args=validate_args)

    def log_prob(self, value: Any) -> Tensor:
        self._checked(value)
        return super().log_prob(cg.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device))


class Gumbel(TransformedDistribution):
    """loc − scale · log(−log U) of a uniform U: the largest of many."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: (math.pi / math.sqrt(6)) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._take(loc=loc, scale=scale)
        limits = finfo(self.loc.dtype)
        low, high = limits.tiny, 1 - limits.eps
        if not (isinstance(loc, NUMBERS) and isinstance(scale, NUMBERS)):
            low, high = cg.full_like(self.loc, low), cg.full_like(self.loc, high)
        chain = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-cg.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=loc, scale=-self.scale),
        ]
        uniform = Uniform(low, high, validate_args=validate_args)
        super().__init__(uniform, chain, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - self._checked(value)) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class Weibull(TransformedDistribution):
    """scale · E^(1 / concentration) of a standard exponential E."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    concentration_reciprocal = property(lambda self: self.concentration.reciprocal())
    mean = property(lambda self: self.scale * self._moment(1))

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._take(scale=scale, concentration=concentration)
        exponential = Exponential(cg.ones_like(self.scale), validate_args=validate_args)
        power = PowerTransform(exponent=self.concentration_reciprocal)
        chain = [power, AffineTransform(loc=0, scale=self.scale)]
        super().__init__(exponential, chain, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        return cg.lgamma(1 + n * self.concentration_reciprocal).exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        squared_mean = cg.exp(2 * cg.lgamma(1 + self.concentration_reciprocal))
        return self.scale.pow(2) * (self._moment(2) - squared_mean)

    def entropy(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + cg.log(self.scale * inverse) + 1


class Pareto(TransformedDistribution):
    """scale · exp E of an exponential E of rate alpha: a power law."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    mode = property(lambda self: self.scale)

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self._take(scale=scale, alpha=alpha)
        exponential = Exponential(self.alpha, validate_args=validate_args)
        chain = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(exponential, chain, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """Infinite up to alpha = 1."""
        alpha = self.alpha.clamp(min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def variance(self) -> Tensor:
        """Infinite up to alpha = 2."""
        alpha = self.alpha.clamp(min=2)
        return self.scale.pow(2) * alpha / ((alpha - 1).pow(2) * (alpha - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(TransformedDistribution):
    """(1 − U^(1 / b))^(1 / a) of a uniform U; much like Beta(a, b), but with a simple inverse."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    mean = property(lambda self: self._moment(1))
    variance = property(lambda self: self._moment(2) - self.mean.pow(2))

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self._take(concentration1=concentration1, concentration0=concentration0)
        low, high = cg.zeros_like(self.concentration0), cg.ones_like(self.concentration0)
        chain = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        uniform = Uniform(low, high, validate_args=validate_args)
        super().__init__(uniform, chain, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """b · B(1 + n / a, b)."""
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * cg.exp(cg.lgamma(a) + cg.lgamma(b) - cg.lgamma(a + b))

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), math.nan).exp()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = cg.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class InverseGamma(TransformedDistribution):
    """1 / X of a gamma X."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)
    mode = property(lambda self: self.rate / (self.concentration + 1))

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        gamma = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(-gamma.rate.new_ones(Size()))
        super().__init__(gamma, power, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        mean = self.rate / (self.concentration - 1)
        return cg.where(self.concentration > 1, mean, math.inf)

    @property
    def variance(self) -> Tensor:
        alpha = self.concentration
        variance = self.rate.square() / ((alpha - 1).square() * (alpha - 2))
        return cg.where(alpha > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        alpha = self.concentration
        return alpha + self.rate.log() + alpha.lgamma() - (1 + alpha) * alpha.digamma()
