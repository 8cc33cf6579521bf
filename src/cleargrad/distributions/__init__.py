"""torch.distributions: random variables with parameters, their samples, densities, entropies and divergences.

Read first: distributions/utils.py and distributions/constraints.py, then distributions/distribution.py.
Read next: distributions/utils.py.
"""

from __future__ import annotations

import sys as _sys

from cleargrad.distributions import (
    categories,
    compound,
    constraints,
    distribution,
    exp_family,
    gammas,
    kl,
    kl_pairs,
    location_scale,
    matrices,
    multivariate_normal,
    relaxed,
    transformed,
    transforms,
    trials,
    utils,
)
from cleargrad.distributions.categories import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from cleargrad.distributions.compound import Independent, MixtureSameFamily, TransformedDistribution
from cleargrad.distributions.constraint_registry import biject_to, transform_to
from cleargrad.distributions.distribution import Distribution
from cleargrad.distributions.exp_family import ExponentialFamily
from cleargrad.distributions.gammas import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma, StudentT
from cleargrad.distributions.kl import kl_divergence, register_kl
from cleargrad.distributions.location_scale import (
    Cauchy,
    GeneralizedPareto,
    Laplace,
    Normal,
    Uniform,
    VonMises,
)
from cleargrad.distributions.matrices import LKJCholesky, Wishart
from cleargrad.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from cleargrad.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from cleargrad.distributions.transformed import (
    Gumbel,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from cleargrad.distributions.transforms import *  # noqa: F403
from cleargrad.distributions.trials import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    NegativeBinomial,
    Poisson,
)

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
    *transforms.__all__,
    "constraints",
    "distribution",
    "exp_family",
    "kl",
    "kl_pairs",
    "utils",
]

# PyTorch keeps each distribution in a module of its own, and programs import from there.
_HOMES = {
    location_scale: ("cauchy", "generalized_pareto", "laplace", "normal", "uniform", "von_mises"),
    gammas: ("beta", "chi2", "dirichlet", "exponential", "fishersnedecor", "gamma", "studentT"),
    trials: (
        "bernoulli",
        "binomial",
        "continuous_bernoulli",
        "geometric",
        "negative_binomial",
        "poisson",
    ),
    categories: ("categorical", "multinomial", "one_hot_categorical"),
    multivariate_normal: ("lowrank_multivariate_normal",),
    compound: ("independent", "mixture_same_family", "transformed_distribution"),
    transformed: (
        "gumbel",
        "half_cauchy",
        "half_normal",
        "inverse_gamma",
        "kumaraswamy",
        "log_normal",
        "logistic_normal",
        "pareto",
        "weibull",
    ),
    relaxed: ("relaxed_bernoulli", "relaxed_categorical"),
    matrices: ("lkj_cholesky", "wishart"),
}
for _home, _names in _HOMES.items():
    for _name in _names:
        globals()[_name] = _sys.modules[f"{__name__}.{_name}"] = _home
