"""Distributions made of others: TransformedDistribution, Independent, MixtureSameFamily.

Read next: distributions/transformed.py.
"""

from __future__ import annotations

from typing import Any

import cleargrad as cg
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.categories import Categorical
from cleargrad.distributions.distribution import Distribution
from cleargrad.distributions.transform import ComposeTransform, Transform, widened
from cleargrad.distributions.utils import EMPTY, _sum_rightmost
from cleargrad.errors import error

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """Another distribution whose rightmost batch dimensions count as part of the event."""

    arg_constraints: Any = {}

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        dims = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > dims:
            rule = "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
            rule += f"actual {reinterpreted_batch_ndims} vs {dims}"
            raise error(ValueError, "Independent", rule)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = dims - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def __class_getitem__(cls, item: Any) -> type[Independent]:
        return cls  # Independent[Normal] in annotations

    @property
    def has_enumerate_support(self) -> bool:
        return self.reinterpreted_batch_ndims <= 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        base, dims = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, dims) if dims else base

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            rule = "Enumeration over cartesian product is not implemented"
            raise error(NotImplementedError, "Independent", rule)
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """Samples of another distribution, put through transforms one after the other."""

    arg_constraints: Any = {}

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list):
            rule = f"transforms must be a Transform or list, but was {transforms}"
            raise error(ValueError, "TransformedDistribution", rule)
        if not all(isinstance(transform, Transform) for transform in self.transforms):
            rule = "transforms must be a Transform or a list of Transforms"
            raise error(ValueError, "TransformedDistribution", rule)
        chain = ComposeTransform(self.transforms)
        domain_dim, codomain_dim = chain.domain.event_dim, chain.codomain.event_dim
        base_dim = len(base_distribution.event_shape)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < domain_dim:
            rule = f"base_distribution needs to have shape with size at least {domain_dim}"
            raise error(ValueError, "TransformedDistribution", f"{rule}, but got {base_shape}.")
        shape = chain.forward_shape(base_shape)
        needed = chain.inverse_shape(shape)
        if needed != base_shape:  # the transforms' own parameters have a batch
            base_distribution = base_distribution.expand(needed[: len(needed) - base_dim])
        if domain_dim > base_dim:
            base_distribution = Independent(base_distribution, domain_dim - base_dim)
        self.base_dist = base_distribution
        cut = len(shape) - max(codomain_dim, base_dim + codomain_dim - domain_dim)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def _expanded(self, value: Any, batch_shape: Size) -> Any:
        if value is not self.__dict__["base_dist"]:
            return super()._expanded(value, batch_shape)
        shape = batch_shape + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        return value.expand(shape[: len(shape) - len(value.event_shape)])

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint:
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        return widened(codomain, max(len(self.event_shape), codomain.event_dim))

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        with cg.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """The base's log-density at the point that is mapped here, less the logarithm of the stretching."""
        y, event_dim = self._checked(value), len(self.event_shape)
        log_prob: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            stretching = transform.log_abs_det_jacobian(x, y)
            log_prob = log_prob - _sum_rightmost(stretching, event_dim - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return log_prob + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Decreasing transforms turn a probability into that of the other side."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))


class MixtureSameFamily(Distribution):
    """One of several components, the rightmost batch dimension of one distribution, chosen by a Categorical."""

    arg_constraints: Any = {}

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        check_mixture(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = mixture_distribution.logits.shape[-1]
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(component_distribution.batch_shape[:-1], event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> constraints.Constraint:
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    @property
    def _component_dim(self) -> int:
        return -1 - self._event_ndims

    def _weights(self) -> Tensor:
        """The probabilities, with a dimension of one for each that only the components have."""
        probs = self.mixture_distribution.probs
        own = len(self.mixture_distribution.batch_shape)
        missing = 0 if own == 1 else len(self.batch_shape) - own
        shape = (*probs.shape[:-1], *[1] * missing, probs.shape[-1], *[1] * self._event_ndims)
        return probs.reshape(shape)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(dim=self._component_dim)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances plus the variance of the means."""
        dim, weights, components = self._component_dim, self._weights(), self.component_distribution
        distance = components.mean - self.mean.unsqueeze(dim)
        return (weights * components.variance).sum(dim=dim) + (weights * distance.pow(2.0)).sum(dim=dim)

    def cdf(self, x: Tensor) -> Tensor:
        parts = self.component_distribution.cdf(x.unsqueeze(self._component_dim))
        return (parts * self.mixture_distribution.probs).sum(dim=-1)

    def log_prob(self, x: Tensor) -> Tensor:
        parts = self.component_distribution.log_prob(self._checked(x).unsqueeze(self._component_dim))
        return (parts + self.mixture_distribution.logits.log_softmax(dim=-1)).logsumexp(dim=-1)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        with cg.no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + Size([1] * (self._event_ndims + 1)))
            index = index.repeat(Size([1] * (chosen.dim() + 1)) + self.event_shape)
            return samples.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


def check_mixture(mixture: Any, components: Any) -> None:
    name = "MixtureSameFamily"
    if not isinstance(mixture, Categorical):
        rule = "The Mixture distribution needs to be an instance of torch.distributions.Categorical"
        raise error(ValueError, name, rule, mixture_distribution=type(mixture).__name__)
    if not isinstance(components, Distribution):
        rule = "The Component distribution needs to be an instance of torch.distributions.Distribution"
        raise error(ValueError, name, rule, component_distribution=type(components).__name__)
    batch, own = mixture.batch_shape, components.batch_shape[:-1]
    pairs = zip(reversed(batch), reversed(own), strict=False)
    if any(a != 1 and b not in (1, a) for a, b in pairs):
        rule = f"`mixture_distribution.batch_shape` ({batch}) is not compatible with "
        raise error(ValueError, name, f"{rule}`component_distribution.batch_shape`({own})")
    count = mixture.param_shape[-1]
    if count != components.batch_shape[-1]:
        rule = f"`mixture_distribution component` ({count}) does not equal "
        raise error(ValueError, name, f"{rule}`component_distribution.batch_shape[-1]`")
