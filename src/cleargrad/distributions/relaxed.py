"""Choices made smooth (Maddison et al. 2017, Jang et al. 2017), and the distributions of their logarithms.

The lower the temperature, the closer samples are to zeros and ones. Read next: distributions/matrices.py.
"""

from __future__ import annotations

from typing import Any

import cleargrad as cg
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.categories import Categorical, OverCategories
from cleargrad.distributions.compound import TransformedDistribution
from cleargrad.distributions.transforms import ExpTransform, SigmoidTransform
from cleargrad.distributions.trials import Odds
from cleargrad.distributions.utils import EMPTY, broadcast_all, clamp_probs

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


class LogitRelaxedBernoulli(Odds):
    """(logits + logistic noise) / temperature."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(self._take_odds(probs, logits), validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(cg.rand(shape, dtype=probs.dtype))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        distance = logits - value.mul(self.temperature)
        return self.temperature.log() + distance - 2 * distance.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """The sigmoid of a LogitRelaxedBernoulli."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(OverCategories):
    """log softmax((logits + Gumbel noise) / temperature)."""

    support = constraints.real_vector  # a set of measure zero in it; the true one is not worth its price
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        self._start(validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        u = clamp_probs(cg.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        gumbels = -((-(u.log())).log())
        return ((self.logits + gumbels) / self.temperature).log_softmax(dim=-1)

    def log_prob(self, value: Tensor) -> Tensor:
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, self._checked(value))
        normalizer = cg.full_like(self.temperature, float(count)).lgamma()
        normalizer = normalizer - self.temperature.log().mul(-(count - 1))
        return (logits - value.mul(self.temperature)).log_softmax(dim=-1).sum(-1) + normalizer


class RelaxedOneHotCategorical(TransformedDistribution):
    """exp of an ExpRelaxedCategorical: softmax((logits + Gumbel noise) / temperature)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
