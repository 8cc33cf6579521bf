"""Trials that succeed or fail, and counts: Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson and kin.

All but Poisson are given by `probs` or by `logits`; `Odds` computes the one that was not given.
Read next: distributions/categories.py.
"""

from __future__ import annotations

import math
from typing import Any

import cleargrad as cg
from cleargrad.core.dtype import finfo
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.distribution import Distribution
from cleargrad.distributions.exp_family import ExponentialFamily
from cleargrad.distributions.gammas import Gamma
from cleargrad.distributions.utils import (
    EMPTY,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from cleargrad.errors import error
from cleargrad.nn.functional import binary_cross_entropy_with_logits, logsigmoid

__all__ = ["Bernoulli", "Binomial", "ContinuousBernoulli", "Geometric", "NegativeBinomial", "Odds", "Poisson"]


def given(owner: Distribution, probs: Any, logits: Any) -> dict[str, Any]:
    """The one of both that is not None, under its name."""
    if (probs is None) == (logits is None):
        rule = "Either `probs` or `logits` must be specified, but not both."
        raise error(ValueError, type(owner).__name__, rule)
    return {"logits": logits} if probs is None else {"probs": probs}


class Odds(Distribution):
    """A distribution with independent probabilities of success, given by `probs` or by `logits`."""

    _given: str  # which of the two

    def _take_odds(self, probs: Any, logits: Any, **others: Any) -> Size:
        odds = given(self, probs, logits)
        (self._given,) = odds
        return self._take(**others, **odds)

    @property
    def _param(self) -> Tensor:
        return getattr(self, self._given)

    @property
    def param_shape(self) -> Size:
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, is_binary=True)


class Bernoulli(Odds, ExponentialFamily):
    """One with probability p, else zero."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take_odds(probs, logits), validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, math.nan)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        with cg.no_grad():
            return cg.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(cg.arange(2, dtype=self._param.dtype), expand)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (cg.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return cg.log1p(x.exp())


class Binomial(Odds):
    """The number of successes in `total_count` trials."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._take_odds(probs, logits, total_count=total_count)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cg.no_grad():
            return cg.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        n, k, logits = self.total_count, self._checked(value), self.logits
        # log(1 + exp(logits)), with a gradient of one half at zero on both sides of the maximum.
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        normalizer = n * positive + n * cg.log1p(cg.exp(-logits.abs())) - cg.lgamma(n + 1)
        return k * logits - cg.lgamma(k + 1) - cg.lgamma(n - k + 1) - normalizer

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self._counts("entropy", expand=False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._counts("enumerate_support", expand)

    def _counts(self, asked: str, expand: bool) -> Tensor:
        most = int(self.total_count.max())
        if self.total_count.min() != most:
            rule = f"Inhomogeneous total count not supported by `{asked}`."
            raise error(NotImplementedError, "Binomial", rule, total_count=self.total_count)
        return self._enumerated(cg.arange(1 + most, dtype=self._param.dtype), expand)


class Geometric(Odds):
    """p (1 − p)^k: the number of failures before the first success."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: cg.zeros_like(self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take_odds(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            rule = f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution "
            rule += f"{self!r} to be positive but found invalid values:\n{self.probs[self.probs <= 0]}"
            raise error(ValueError, "Geometric", rule)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape, tiny = self._extended_shape(sample_shape), finfo(self.probs.dtype).tiny
        with cg.no_grad():
            u = self.probs.new_empty(shape).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(self._checked(value), self.probs)
        # No failures before a certain success: 0 · log 0 is 0.
        failing = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(Odds):
    """The number of successes before `total_count` failures: a Poisson count whose rate is a gamma number."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / cg.sigmoid(-self.logits))

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._take_odds(probs, logits, total_count=total_count)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(shape, validate_args=validate_args)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(concentration=self.total_count, rate=cg.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        with cg.no_grad():
            return cg.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        n, k = self.total_count, self._checked(value)
        powers = n * logsigmoid(-self.logits) + k * logsigmoid(self.logits)
        normalizer = -cg.lgamma(n + k) + cg.lgamma(1.0 + k) + cg.lgamma(n)
        # No trials at all: infinity minus infinity.
        return powers - normalizer.masked_fill(n + k == 0.0, 0.0)


class Poisson(ExponentialFamily):
    """rate^k exp(−rate) / k!."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._take(rate=rate), validate_args=validate_args)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        with cg.no_grad():
            return cg.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, self._checked(value))
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()


class ContinuousBernoulli(Odds, ExponentialFamily):
    """p^x (1 − p)^(1 − x) C(p) on [0, 1] (Loaiza-Ganem and Cunningham 2019).

    Near p = 1/2, between `lims`, the closed forms are 0 / 0 and Taylor's polynomials take over.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    stddev = property(lambda self: self.variance.sqrt())

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._take_odds(probs, logits)
        if probs is not None:
            if validate_args is not None and not constraints.unit_interval.check(self.probs).all():
                raise error(ValueError, "ContinuousBernoulli", "The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _stable(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        return cg.where(self._stable(), self.probs, self._lims[0] * cg.ones_like(self.probs))

    def _cont_bern_log_norm(self) -> Tensor:
        """log C(p) = log |log((1 − p) / p)| − log |1 − 2p|."""
        p = self._cut_probs()
        small = p <= 0.5
        below = cg.where(small, p, cg.zeros_like(p))
        above = cg.where(p >= 0.5, p, cg.ones_like(p))
        distance = cg.where(small, cg.log1p(-2.0 * below), cg.log(2.0 * above - 1.0))
        exact = cg.log(cg.abs(cg.log1p(-p) - cg.log(p))) - distance
        x = (self.probs - 0.5).pow(2)
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return cg.where(self._stable(), exact, taylor)

    @property
    def mean(self) -> Tensor:
        p = self._cut_probs()
        exact = p / (2.0 * p - 1.0) + 1.0 / (cg.log1p(-p) - cg.log(p))
        x = self.probs - 0.5
        taylor = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return cg.where(self._stable(), exact, taylor)

    @property
    def variance(self) -> Tensor:
        p = self._cut_probs()
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (cg.log1p(-p) - cg.log(p)).pow(2)
        x = (self.probs - 0.5).pow(2)
        taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return cg.where(self._stable(), exact, taylor)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        return self.icdf(cg.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        likelihood = -binary_cross_entropy_with_logits(logits, value, reduction="none")
        return likelihood + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        p = self._cut_probs()
        exact = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = cg.where(self._stable(), exact, value)
        upper = cg.where(value >= 1.0, cg.ones_like(value), inside)
        return cg.where(value <= 0.0, cg.zeros_like(value), upper)

    def icdf(self, value: Tensor) -> Tensor:
        p = self._cut_probs()
        failure = cg.log1p(-p)
        exact = (cg.log1p(-p + value * (2.0 * p - 1.0)) - failure) / (p.log() - failure)
        return cg.where(self._stable(), exact, value)

    def entropy(self) -> Tensor:
        failure, success = cg.log1p(-self.probs), cg.log(self.probs)
        return self.mean * (failure - success) - self._cont_bern_log_norm() - failure

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        stable = (x <= low) | (x > high)
        cut = cg.where(stable, x, low * cg.ones_like(x))
        exact = cg.log(cg.abs(cg.expm1(cut))) - cg.log(cg.abs(cut))
        taylor = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return cg.where(stable, exact, taylor)
