"""ExponentialFamily: densities of the form exp(⟨θ, t(x)⟩ − F(θ) + k(x)), whose entropy needs F alone.

Read next: distributions/location_scale.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad import autograd
from cleargrad.core.tensor import Tensor
from cleargrad.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Subclasses give the natural parameters θ, the log-normaliser F, and the mean of k."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F(θ) − ⟨θ, ∇F(θ)⟩ − E[k]: the gradient of F is the mean of t."""
        carrier = self._mean_carrier_measure
        normalizer, parameters, means = with_gradient(self)
        result = normalizer - carrier
        for theta, mean in zip(parameters, means, strict=True):
            result = result - (theta * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return result


def with_gradient(p: ExponentialFamily) -> tuple[Tensor, list[Tensor], Any]:
    """F(θ), θ and ∇F(θ), with θ as new leaves."""
    parameters = [theta.detach().requires_grad_() for theta in p._natural_params]
    normalizer = p._log_normalizer(*parameters)
    return normalizer, parameters, autograd.grad(normalizer.sum(), parameters, create_graph=True)
