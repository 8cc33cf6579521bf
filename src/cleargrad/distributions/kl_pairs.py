"""Divergences between different families, from KL(p ‖ q) = −H(p) − E_p[log q].

The expected log-density of each q needs few facts of p: its mean and variance, E[log x], E[log(1 − x)] or
E[exp(−x)]. They stand in small tables; a third says which pairs PyTorch knows. Importing this file registers
them. Read next: distributions/__init__.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cleargrad as cg
from cleargrad.core.tensor import Tensor
from cleargrad.distributions.gammas import Beta, Exponential, Gamma
from cleargrad.distributions.kl import register_kl
from cleargrad.distributions.location_scale import Laplace, Normal, Uniform
from cleargrad.distributions.transformed import Gumbel, Pareto
from cleargrad.distributions.trials import Bernoulli, Binomial, ContinuousBernoulli, Poisson
from cleargrad.distributions.utils import euler_constant


def fact(table: dict[type, Callable], p: Any) -> Callable:
    """The entry for the class of p, or for the nearest of its bases."""
    return next(table[kind] for kind in type(p).__mro__ if kind in table)


def mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    return (cg.xlogy(high, high) - cg.xlogy(low, low)) / (high - low) - 1


# E_p[log x]
MEAN_LOG: dict[type, Callable] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: mean_log_between(p.low, p.high),
}


def uniform_tail(p: Uniform, loc: Tensor, scale: Tensor) -> Tensor:
    near, far = cg.exp((loc - p.low) / scale), cg.exp((loc - p.high) / scale)
    return scale / (p.high - p.low) * (near - far)


# E_p[exp(−(x − loc) / scale)]
MEAN_EXP: dict[type, Callable] = {
    Exponential: lambda p, loc, scale: cg.exp(loc / scale) * p.rate * scale / (p.rate * scale + 1),
    Gamma: lambda p, loc, scale: (
        cg.exp(loc / scale) * (1 + (p.rate * scale).reciprocal()).pow(-p.concentration)
    ),
    Normal: lambda p, loc, scale: cg.exp((loc - p.loc) / scale + 0.5 * (p.scale / scale).pow(2)),
    Uniform: uniform_tail,
}


def log_beta(p: Any, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    powers = (a - 1) * fact(MEAN_LOG, p)(p) + (b - 1) * mean_log_between(1 - p.high, 1 - p.low)
    return powers - a.lgamma() - b.lgamma() + (a + b).lgamma()


def log_gamma(p: Any, q: Gamma) -> Tensor:
    alpha = q.concentration
    powers = (alpha - 1) * fact(MEAN_LOG, p)(p) - q.rate * p.mean
    return alpha * q.rate.log() - alpha.lgamma() + powers


def log_gumbel(p: Any, q: Gumbel) -> Tensor:
    tail = fact(MEAN_EXP, p)(p, q.loc, q.scale)
    return -q.scale.log() - (p.mean - q.loc) / q.scale - tail


def log_laplace(p: Normal, q: Laplace) -> Tensor:
    """The mean distance of a normal number from a point."""
    distance = p.loc - q.loc
    ratio = distance / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * cg.exp(-0.5 * ratio.pow(2))
    return -(2 * q.scale).log() - (near + distance * cg.erf(math.sqrt(0.5) * ratio)) / q.scale


def log_normal(p: Any, q: Normal) -> Tensor:
    spread = (p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2)
    return -q.scale.log() - 0.5 * math.log(2 * math.pi) - 0.5 * spread


def log_pareto(p: Any, q: Pareto) -> Tensor:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * fact(MEAN_LOG, p)(p)


# E_p[log q]
MEAN_LOG_PROB: dict[type, Callable] = {
    Beta: log_beta,
    ContinuousBernoulli: lambda p, q: p.mean * q.logits + cg.log1p(-q.probs) + q._cont_bern_log_norm(),
    Exponential: lambda p, q: q.rate.log() - q.rate * p.mean,
    Gamma: log_gamma,
    Gumbel: log_gumbel,
    Laplace: log_laplace,
    Normal: log_normal,
    Pareto: log_pareto,
    Poisson: lambda p, q: p.mean * q.rate.log() - q.rate,  # log k! vanishes for a p of zeros and ones
    Uniform: lambda p, q: -(q.high - q.low).log(),
}

# Where p reaches values that q excludes. Touching ends count where PyTorch counts them.
OUTSIDE: dict[tuple[type, type], Callable] = {
    (Beta, Uniform): lambda p, q: (q.low > 0) | (q.high < 1),
    (ContinuousBernoulli, Uniform): lambda p, q: (q.low >= 0) | (q.high <= 1),
    (Uniform, Beta): lambda p, q: (p.high > 1) | (p.low < 0),
    (Uniform, ContinuousBernoulli): lambda p, q: (p.high >= 1) | (p.low <= 0),
    (Uniform, Exponential): lambda p, q: p.low < 0,
    (Uniform, Gamma): lambda p, q: p.low < 0,
    (Uniform, Pareto): lambda p, q: p.low < q.scale,
}

FINITE: dict[type, tuple[type, ...]] = {
    Bernoulli: (Poisson,),
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (Exponential, Normal, Uniform),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Gumbel: (Normal,),
    Laplace: (Normal,),
    Normal: (Gumbel, Laplace),
    Pareto: (Exponential, Gamma, Normal),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto),
}

INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def finite(kind_p: type, kind_q: type) -> Callable:
    mean_log_prob, outside = MEAN_LOG_PROB[kind_q], OUTSIDE.get((kind_p, kind_q))

    def divergence(p: Any, q: Any) -> Tensor:
        result = -p.entropy() - mean_log_prob(p, q)
        return result if outside is None else result.masked_fill(outside(p, q), math.inf)

    return divergence


def infinite(p: Any, q: Any) -> Tensor:
    return cg.full_like(p.mean, math.inf)


for kind_p, others in FINITE.items():
    for kind_q in others:
        register_kl(kind_p, kind_q)(finite(kind_p, kind_q))
for kind_p, others in INFINITE.items():
    for kind_q in others:
        register_kl(kind_p, kind_q)(infinite)
