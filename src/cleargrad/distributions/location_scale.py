"""Distributions with a place and a width: Normal, Laplace, Cauchy, Uniform, GeneralizedPareto, VonMises.

Read next: distributions/gammas.py.
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
from cleargrad.distributions.utils import EMPTY, _standard_normal, lazy_property

__all__ = ["Cauchy", "GeneralizedPareto", "Laplace", "Normal", "Uniform", "VonMises"]


class Normal(ExponentialFamily):
    """exp(−((x − loc) / scale)² / 2) / (scale √2π)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

    mean = mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale.pow(2))

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(loc=loc, scale=scale), validate_args=validate_args)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cg.no_grad():
            return cg.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        distance = self._checked(value) - self.loc
        return -(distance**2) / (2 * self.scale**2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        distance = self._checked(value) - self.loc
        return 0.5 * (1 + cg.erf(distance * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * cg.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.pow(2) / y + 0.5 * cg.log(-math.pi / y)


class Laplace(Distribution):
    """exp(−|x − loc| / scale) / (2 scale)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2**0.5 * self.scale)

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(loc=loc, scale=scale), validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # Open at −1, whose logarithm would not be finite.
        u = self.loc.new_empty(shape).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * cg.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        return -cg.log(2 * self.scale) - (self._checked(value) - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        distance = self._checked(value) - self.loc
        return 0.5 - 0.5 * distance.sign() * cg.expm1(-distance.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        offset = value - 0.5
        return self.loc - self.scale * offset.sign() * cg.log1p(-2 * offset.abs())

    def entropy(self) -> Tensor:
        return 1 + cg.log(2 * self.scale)


class Cauchy(Distribution):
    """1 / (π scale (1 + ((x − loc) / scale)²)): the ratio of two centred normals; it has no mean."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    mode = property(lambda self: self.loc)
    mean = property(lambda self: self._full(math.nan, self.loc))
    variance = property(lambda self: self._full(math.inf, self.loc))

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(loc=loc, scale=scale), validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        distance = (self._checked(value) - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (distance**2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return cg.atan((self._checked(value) - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return cg.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """1 / (high − low) from low up to, but without, high."""

    has_rsample = True

    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: math.nan * self.high)
    stddev = property(lambda self: (self.high - self.low) / 12**0.5)
    variance = property(lambda self: (self.high - self.low).pow(2) / 12)

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(low=low, high=high), validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.low + cg.rand(shape, dtype=self.low.dtype) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class GeneralizedPareto(Distribution):
    """Excesses over a threshold: survival (1 + concentration z)^(−1 / concentration), z = (x − loc) / scale."""

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    mode = property(lambda self: self.loc)

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        shape = self._take(loc=loc, scale=scale, concentration=concentration)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        end = cg.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, end)

    def _exponential(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is zero (the limit is exponential), and concentrations safe to divide by."""
        zero = cg.isclose(self.concentration, cg.zeros_like(self.concentration))
        return zero, cg.where(zero, cg.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        return self.icdf(cg.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._checked(value) - self.loc) / self.scale
        zero, k = self._exponential()
        power = 1 / k + cg.ones_like(z)
        heavy = cg.where(power == 0, power, power * cg.log1p(k * z))
        return -self.scale.log() - cg.where(zero, z, heavy)

    def log_survival_function(self, value: Tensor) -> Tensor:
        z = (self._checked(value) - self.loc) / self.scale
        zero, k = self._exponential()
        return cg.where(zero, -z, -cg.log1p(k * z) / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        return cg.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        log_survival = cg.log1p(-value)
        zero, k = self._exponential()
        heavy = self.loc + self.scale / k * cg.expm1(-k * log_survival)
        return cg.where(zero, self.loc - self.scale * log_survival, heavy)

    @property
    def mean(self) -> Tensor:
        exists = self.concentration < 1
        k = cg.where(exists, self.concentration, 0.5)
        return cg.where(exists, self.loc + self.scale / (1 - k), math.nan)

    @property
    def variance(self) -> Tensor:
        exists = self.concentration < 0.5
        k = cg.where(exists, self.concentration, 0.25)
        return cg.where(exists, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.nan)

    def entropy(self) -> Tensor:
        return cg.broadcast_to(self.scale.log() + self.concentration + 1, self._batch_shape)


# Bessel's I₀ and I₁ (Abramowitz and Stegun 9.8.1 to 9.8.4): below 3.75 in (x / 3.75)², above in 3.75 / x.
BESSEL_LOW = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
)
BESSEL_HIGH = (
    (0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633,
     0.00392377),
    (0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312, 0.01787654,
     -0.00420059),
)  # fmt: skip


def polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    result: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = coefficient + x * result
    return result


def log_bessel(x: Tensor, order: int) -> Tensor:
    """log I₀(x) or log I₁(x) for x > 0."""
    low = polynomial((x / 3.75) ** 2, BESSEL_LOW[order])
    low = (x.abs() * low if order else low).log()
    high = x - 0.5 * x.log() + polynomial(3.75 / x, BESSEL_HIGH[order]).log()
    return cg.where(x < 3.75, low, high)


class VonMises(Distribution):
    """exp(concentration · cos(x − loc)) / (2π I₀(concentration)): a normal distribution on the circle."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    mean = mode = property(lambda self: self.loc)

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(loc=loc, concentration=concentration), validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        closeness = self.concentration * cg.cos(self._checked(value) - self.loc)
        return closeness - math.log(2 * math.pi) - log_bessel(self.concentration, 0)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """The shape of the wrapped Cauchy distribution that candidates are drawn from."""
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return cg.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        """Best and Fisher's rejection (1979), in float64 because the acceptance rate depends on digits."""
        with cg.no_grad():
            kappa, r = self.concentration.double(), self._proposal_r
            x = cg.empty(self._extended_shape(sample_shape), dtype=cg.float64)
            done = cg.zeros(x.shape, dtype=cg.bool)
            while not done.all():
                u1, u2, u3 = cg.rand((3, *x.shape), dtype=cg.float64).unbind()
                z = cg.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                x = cg.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            around = (x + math.pi + self.loc.double()) % (2 * math.pi) - math.pi
            return around.to(self.loc.dtype)

    @lazy_property
    def variance(self) -> Tensor:
        """The circular one."""
        return 1 - (log_bessel(self.concentration, 1) - log_bessel(self.concentration, 0)).exp()
