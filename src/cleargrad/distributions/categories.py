"""Choices among categories: Categorical, OneHotCategorical, its straight-through form, Multinomial.

Read next: distributions/multivariate_normal.py.
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
from cleargrad.distributions.trials import Binomial, given
from cleargrad.distributions.utils import (
    EMPTY,
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from cleargrad.errors import error
from cleargrad.nn.functional import one_hot

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]


class Categorical(Distribution):
    """An index of the last dimension of `probs`, or of `logits`, which are normalised first."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    mean = variance = property(lambda self: self._full(math.nan, self.probs))
    mode = property(lambda self: self.probs.argmax(dim=-1))

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        ((self._given, weights),) = given(self, probs, logits).items()
        if weights.dim() < 1:
            rule = f"`{self._given}` parameter must be at least one-dimensional."
            raise error(ValueError, "Categorical", rule, **{self._given: weights})
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - weights.logsumexp(dim=-1, keepdim=True)
        self._num_events = weights.shape[-1]
        super().__init__(weights.shape[:-1], validate_args=validate_args)

    @property
    def _param(self) -> Tensor:
        return getattr(self, self._given)

    @property
    def param_shape(self) -> Size:
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        sample_shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        indices = cg.multinomial(rows, sample_shape.numel(), True).T
        return indices.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        index = self._checked(value).long().unsqueeze(-1)
        index, log_pmf = cg.broadcast_tensors(index, self.logits)
        return log_pmf.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        # Impossible categories have logits of minus infinity; zero times that must stay zero.
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(cg.arange(self._num_events, dtype=cg.int64), expand)


class OverCategories(Distribution):
    """A distribution of vectors over the categories of a Categorical inside."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _categorical: Categorical

    _param = property(lambda self: self._categorical._param)
    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)

    def _start(self, validate_args: bool | None) -> None:
        shape = self._categorical.param_shape
        Distribution.__init__(self, self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)


class OneHotCategorical(OverCategories):
    """A one at the chosen category, zeros elsewhere."""

    support = constraints.one_hot
    has_enumerate_support = True

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self._start(validate_args)

    @property
    def mode(self) -> Tensor:
        return one_hot(self._categorical.mode, num_classes=self._event_shape[-1]).to(self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        indices = self._categorical.sample(Size(sample_shape))
        return one_hot(indices, self._categorical._num_events).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._checked(value).max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = cg.eye(n, dtype=self._param.dtype)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot samples whose gradient is that of the probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        samples = self.sample(sample_shape)
        return samples + (self.probs - self.probs.detach())


class Multinomial(OverCategories):
    """How often each category comes up in `total_count` choices."""

    total_count: int

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            rule = "inhomogeneous total_count is not supported"
            raise error(NotImplementedError, "Multinomial", rule, total_count=total_count)
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        self._start(validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        sample_shape = Size(sample_shape)
        chosen = self._categorical.sample(Size((self.total_count,)) + sample_shape).movedim(0, -1)
        counts = chosen.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, chosen, cg.ones_like(chosen)).type_as(self.probs)

    def entropy(self) -> Tensor:
        n = cg.as_tensor(self.total_count)
        choices = n * self._categorical.entropy() - cg.lgamma(n + 1)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(counts).exp() * cg.lgamma(counts + 1)
        return choices + weights.sum([0, -1])

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        orders = cg.lgamma(value.sum(-1) + 1) - cg.lgamma(value + 1).sum(-1)
        return orders + (logits * value).sum(-1)
