"""kl_divergence: ∫ p log(p / q) in closed form, for the pairs of distributions that have one.

Here are the table of pairs, the way a pair of subclasses finds its entry, and the pairs of one family with
itself; pairs of different families are in distributions/kl_pairs.py. Read next:
distributions/kl_pairs.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import cleargrad as cg
from cleargrad.core.tensor import Tensor
from cleargrad.distributions.categories import Categorical, OneHotCategorical
from cleargrad.distributions.compound import Independent, TransformedDistribution
from cleargrad.distributions.distribution import Distribution
from cleargrad.distributions.exp_family import ExponentialFamily, with_gradient
from cleargrad.distributions.gammas import Beta, Dirichlet, Exponential, Gamma
from cleargrad.distributions.location_scale import Cauchy, Laplace, Normal, Uniform
from cleargrad.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    _batch_mahalanobis,
    half_log_det,
)
from cleargrad.distributions.transformed import Gumbel, HalfNormal, Pareto
from cleargrad.distributions.trials import Bernoulli, Binomial, ContinuousBernoulli, Geometric, Poisson
from cleargrad.distributions.utils import _sum_rightmost, euler_constant
from cleargrad.errors import error
from cleargrad.nn.functional import softplus

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """A decorator: the function computes kl_divergence(p, q) for these classes and their subclasses."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type) or not issubclass(kind, Distribution):
            rule = f"Expected {name} to be a Distribution subclass but got {kind}"
            raise error(TypeError, "register_kl", rule)

    def declare(function: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return declare


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The entry for the nearest base classes; a warning when nearest in p is not nearest in q."""
    distances = {
        (base_p, base_q): (type_p.__mro__.index(base_p), type_q.__mro__.index(base_q))
        for base_p, base_q in _KL_REGISTRY
        if issubclass(type_p, base_p) and issubclass(type_q, base_q)
    }
    if not distances:
        return NotImplemented
    left = min(distances, key=lambda pair: distances[pair])
    right = min(distances, key=lambda pair: distances[pair][::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        text = f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
        text += f"Please register_kl({left[0].__name__}, {right[1].__name__})"
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q), one number for each element of the batch."""
    kinds = type(p), type(q)
    if kinds not in _KL_MEMOIZE:
        _KL_MEMOIZE[kinds] = _dispatch_kl(*kinds)
    function = _KL_MEMOIZE[kinds]
    if function is NotImplemented:
        rule = "No KL(p || q) is implemented for "
        rule += f"p type {kinds[0].__name__} and q type {kinds[1].__name__}"
        raise error(NotImplementedError, "kl_divergence", rule)
    return function(p, q)


# Numbers ---------------------------------------------------------------------------------------------------


@register_kl(Normal, Normal)
def kl_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    distance = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + distance - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def kl_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def kl_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * cg.exp(-distance / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def kl_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    apart = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return apart.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def kl_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, own, other = p.scale / q.scale, p.loc / q.scale, q.loc / q.scale
    tail = cg.exp(other + (1 + ratio).lgamma() - own)
    return -ratio.log() - other + own + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(Uniform, Uniform)
def kl_uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Pareto, Pareto)
def kl_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return result.masked_fill(p.scale < q.scale, math.inf)


@register_kl(Exponential, Exponential)
def kl_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def kl_gamma(p: Gamma, q: Gamma) -> Tensor:
    rates = q.concentration * (p.rate / q.rate).log()
    normalizers = cg.lgamma(q.concentration) - cg.lgamma(p.concentration)
    powers = (p.concentration - q.concentration) * cg.digamma(p.concentration)
    return rates + normalizers + powers + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Beta, Beta)
def kl_beta(p: Beta, q: Beta) -> Tensor:
    return kl_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def kl_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    total = p.concentration.sum(-1)
    normalizers = total.lgamma() - q.concentration.sum(-1).lgamma()
    normalizers = normalizers - (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    mean_log = p.concentration.digamma() - total.digamma().unsqueeze(-1)
    return normalizers + ((p.concentration - q.concentration) * mean_log).sum(-1)


# Trials and categories -------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def kl_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    """Zero times infinity is zero where p never happens, infinity where only q never does."""
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones = ones.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return ones + zeros.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)


@register_kl(Binomial, Binomial)
def kl_binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        rule = "KL between Binomials where q.total_count > p.total_count is not implemented"
        raise error(NotImplementedError, "kl_divergence", rule)
    failures = (-p.probs).log1p() - (-q.probs).log1p()
    result = p.total_count * (p.probs * (p.logits - q.logits) + failures)
    return result.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Categorical, Categorical)
def kl_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    return terms.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def kl_one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def kl_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - cg.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def kl_poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def kl_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    own = p._cont_bern_log_norm() + cg.log1p(-p.probs)
    return p.mean * (p.logits - q.logits) + own - q._cont_bern_log_norm() - cg.log1p(-q.probs)


# Vectors ---------------------------------------------------------------------------------------------------


def kl_vectors(p: Any, q: Any) -> Tensor:
    """½ (log det Σ_q / Σ_p + tr Σ_q⁻¹ Σ_p + (μ_q − μ_p)ᵀ Σ_q⁻¹ (μ_q − μ_p) − n)."""
    if p.event_shape != q.event_shape:
        rule = "KL-divergence between Multivariate Normals with different event shapes cannot be computed"
        raise error(ValueError, "kl_divergence", rule, p=p.event_shape, q=q.event_shape)
    log_ratio = log_det(q) - log_det(p)
    return 0.5 * (log_ratio + trace_ratio(p, q) + mahalanobis(q, q.loc - p.loc) - p.event_shape[0])


for kind_p in (MultivariateNormal, LowRankMultivariateNormal):
    for kind_q in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(kind_p, kind_q)(kl_vectors)


def log_det(normal: Any) -> Tensor:
    low_rank = isinstance(normal, LowRankMultivariateNormal)
    return normal._log_det() if low_rank else 2 * half_log_det(normal._unbroadcasted_scale_tril)


def mahalanobis(normal: Any, x: Tensor) -> Tensor:
    if isinstance(normal, LowRankMultivariateNormal):
        return normal._mahalanobis(x)
    return _batch_mahalanobis(normal._unbroadcasted_scale_tril, x)


def trace_ratio(p: Any, q: Any) -> Tensor:
    """tr Σ_q⁻¹ Σ_p, with Σ_p = C Cᵀ or C Cᵀ + diag(d)."""
    if isinstance(p, LowRankMultivariateNormal):
        columns, diagonal = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    else:
        columns, diagonal = p._unbroadcasted_scale_tril, None
    if isinstance(q, LowRankMultivariateNormal):
        explained, widths = q._explained(), q._unbroadcasted_cov_diag.unsqueeze(-1)
        result = (columns.pow(2) / widths).sum((-2, -1)) - (explained @ columns).pow(2).sum((-2, -1))
        own = widths.squeeze(-1).reciprocal() - explained.pow(2).sum(-2)
    else:
        lower = q._unbroadcasted_scale_tril
        result = cg.linalg.solve_triangular(lower, columns, upper=False).pow(2).sum((-2, -1))
        if diagonal is not None:
            identity = cg.eye(lower.shape[-1], dtype=lower.dtype)
            own = cg.linalg.solve_triangular(lower, identity, upper=False).pow(2).sum(-2)
    return result if diagonal is None else result + (own * diagonal).sum(-1)


# Made of others --------------------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def kl_exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """Bregman's divergence of the log-normaliser: F(θ_q) − F(θ_p) − ⟨θ_q − θ_p, ∇F(θ_p)⟩."""
    if type(p) is not type(q):
        rule = "different exponential families have no divergence of Bregman's form"
        facts = {"p": type(p).__name__, "q": type(q).__name__}
        raise error(NotImplementedError, "kl_divergence", rule, **facts)
    normalizer, parameters, gradients = with_gradient(p)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for own, other, gradient in zip(parameters, q._natural_params, gradients, strict=True):
        result = result - _sum_rightmost((other - own) * gradient, len(q.event_shape))
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def kl_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """The same transforms do not change a divergence."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: the two distributions are transformed in different ways")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def kl_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: the events have different numbers of dimensions")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
