"""Distributions to compare: how each is made in a library, with its parameters as leaves.

`FAMILIES[name](library, leaf)` makes a distribution; `leaf` turns numbers into a tensor that wants a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import cleargrad

LIBRARIES = (cleargrad, torch)

REALS = [[0.3, -1.2, 0.8], [1.5, 0.0, -0.4]]
POSITIVE = [[0.5, 1.3, 2.2], [0.9, 3.1, 7.5]]
LARGE = [[9.5, 12.0, 30.0], [8.5, 15.0, 60.0]]
CHANCES = [[0.1, 0.5, 0.9], [0.25, 0.6, 0.4995]]
SHARES = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]
SCORES = [[0.2, -0.5, 1.3], [2.0, 0.1, -3.0]]
MATRIX = [[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.7]]
LOWER = [
    [[1.0, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.2, 0.5, 1.4]],
    [[0.7, 0.0, 0.0], [0.1, 1.1, 0.0], [0.4, 0.2, 0.9]],
]
COLUMNS = [[0.5, -0.3], [0.2, 0.8], [-0.6, 0.1]]


def simple(name: str, **parameters: Any) -> Callable:
    """A distribution given by tensors alone."""
    return lambda lib, leaf: getattr(lib.distributions, name)(**{k: leaf(v) for k, v in parameters.items()})


FAMILIES: dict[str, Callable] = {
    "Normal": simple("Normal", loc=REALS, scale=POSITIVE),
    "Normal broadcast": simple("Normal", loc=REALS, scale=POSITIVE[0]),
    "Normal numbers": lambda lib, leaf: lib.distributions.Normal(0.5, 2),
    "Normal many": lambda lib, leaf: lib.distributions.Normal(leaf([0.5] * 40), 2.0),
    "Laplace": simple("Laplace", loc=REALS, scale=POSITIVE),
    "Cauchy": simple("Cauchy", loc=REALS, scale=POSITIVE),
    "Uniform": simple("Uniform", low=REALS, high=[[1.0, 0.0, 3.0], [2.0, 4.0, 0.1]]),
    "Uniform numbers": lambda lib, leaf: lib.distributions.Uniform(-1.0, 3.0),
    "GeneralizedPareto": simple(
        "GeneralizedPareto", loc=REALS, scale=POSITIVE, concentration=[[0.2, 0.0, -0.5], [1.2, 0.6, 0.4]]
    ),
    "VonMises": simple("VonMises", loc=REALS, concentration=POSITIVE),
    "Exponential": simple("Exponential", rate=POSITIVE),
    "Gamma": simple("Gamma", concentration=POSITIVE, rate=POSITIVE),
    "Gamma large": simple("Gamma", concentration=LARGE, rate=POSITIVE),
    "Chi2": simple("Chi2", df=POSITIVE),
    "StudentT": simple("StudentT", df=POSITIVE, loc=REALS, scale=POSITIVE),
    "StudentT number": lambda lib, leaf: lib.distributions.StudentT(3.0),
    "FisherSnedecor": simple("FisherSnedecor", df1=POSITIVE, df2=[[0.5, 3.0, 5.0], [9.0, 4.0, 2.0]]),
    "Dirichlet": simple("Dirichlet", concentration=POSITIVE),
    "Dirichlet large": simple("Dirichlet", concentration=LARGE),
    "Dirichlet sparse": simple("Dirichlet", concentration=[0.3, 0.2, 0.9]),
    "Beta": simple("Beta", concentration1=POSITIVE, concentration0=[[2.0, 0.7, 1.0], [4.0, 0.3, 2.5]]),
    "Beta large": simple("Beta", concentration1=LARGE, concentration0=LARGE[::-1]),
    "Beta numbers": lambda lib, leaf: lib.distributions.Beta(2.0, 3),
    "Bernoulli": simple("Bernoulli", probs=CHANCES),
    "Bernoulli logits": simple("Bernoulli", logits=SCORES),
    "Bernoulli number": lambda lib, leaf: lib.distributions.Bernoulli(0.3),
    "Binomial": lambda lib, leaf: lib.distributions.Binomial(7, probs=leaf(CHANCES)),
    "Binomial logits": lambda lib, leaf: lib.distributions.Binomial(
        lib.tensor([[3, 50, 9], [4, 90, 1]]), logits=leaf(SCORES)
    ),
    "Geometric": simple("Geometric", probs=CHANCES),
    "Geometric logits": simple("Geometric", logits=SCORES),
    "NegativeBinomial": lambda lib, leaf: lib.distributions.NegativeBinomial(
        leaf(POSITIVE), probs=leaf(CHANCES)
    ),
    "NegativeBinomial logits": lambda lib, leaf: lib.distributions.NegativeBinomial(5, logits=leaf(SCORES)),
    "Poisson": simple("Poisson", rate=POSITIVE),
    "Poisson large": simple("Poisson", rate=LARGE),
    "ContinuousBernoulli": simple("ContinuousBernoulli", probs=CHANCES),
    "ContinuousBernoulli logits": simple("ContinuousBernoulli", logits=SCORES),
    "Categorical": simple("Categorical", probs=POSITIVE),
    "Categorical logits": simple("Categorical", logits=SCORES),
    "Categorical vector": simple("Categorical", logits=SCORES[0]),
    "OneHotCategorical": simple("OneHotCategorical", probs=SHARES),
    "OneHotCategorical logits": simple("OneHotCategorical", logits=SCORES),
    "OneHotCategoricalStraightThrough": simple("OneHotCategoricalStraightThrough", logits=SCORES),
    "Multinomial": lambda lib, leaf: lib.distributions.Multinomial(6, probs=leaf(SHARES)),
    "Multinomial logits": lambda lib, leaf: lib.distributions.Multinomial(4, logits=leaf(SCORES[0])),
    "MultivariateNormal covariance": simple("MultivariateNormal", loc=REALS, covariance_matrix=MATRIX),
    "MultivariateNormal precision": simple("MultivariateNormal", loc=REALS[0], precision_matrix=MATRIX),
    "MultivariateNormal scale": simple("MultivariateNormal", loc=REALS, scale_tril=LOWER),
    "LowRankMultivariateNormal": simple(
        "LowRankMultivariateNormal", loc=REALS, cov_factor=COLUMNS, cov_diag=POSITIVE
    ),
    "LogNormal": simple("LogNormal", loc=REALS, scale=POSITIVE),
    "LogisticNormal": simple("LogisticNormal", loc=REALS, scale=POSITIVE),
    "LogisticNormal numbers": lambda lib, leaf: lib.distributions.LogisticNormal(0.1, 0.5),
    "HalfNormal": simple("HalfNormal", scale=POSITIVE),
    "HalfCauchy": simple("HalfCauchy", scale=POSITIVE),
    "Gumbel": simple("Gumbel", loc=REALS, scale=POSITIVE),
    "Gumbel numbers": lambda lib, leaf: lib.distributions.Gumbel(1.0, 2.0),
    "Weibull": simple("Weibull", scale=POSITIVE, concentration=[[1.5, 0.7, 3.0], [2.0, 1.0, 0.9]]),
    "Pareto": simple("Pareto", scale=POSITIVE, alpha=[[0.7, 1.5, 3.0], [2.0, 5.0, 4.0]]),
    "Kumaraswamy": simple(
        "Kumaraswamy", concentration1=POSITIVE, concentration0=[[2.0, 0.7, 1.0], [4.0, 0.3, 2.5]]
    ),
    "InverseGamma": simple("InverseGamma", concentration=POSITIVE, rate=POSITIVE),
    "RelaxedBernoulli": simple("RelaxedBernoulli", temperature=0.7, probs=CHANCES),
    "RelaxedBernoulli logits": simple("RelaxedBernoulli", temperature=0.7, logits=SCORES),
    "RelaxedOneHotCategorical": simple("RelaxedOneHotCategorical", temperature=0.7, probs=SHARES),
    "RelaxedOneHotCategorical logits": simple("RelaxedOneHotCategorical", temperature=2.2, logits=SCORES),
    "LKJCholesky": lambda lib, leaf: lib.distributions.LKJCholesky(3, leaf([0.5, 2.0])),
    "Wishart": lambda lib, leaf: lib.distributions.Wishart(leaf([4.5, 7.0]), leaf(MATRIX)),
    "Wishart number": lambda lib, leaf: lib.distributions.Wishart(5.0, scale_tril=leaf(LOWER[0])),
    "Independent": lambda lib, leaf: lib.distributions.Independent(
        lib.distributions.Normal(leaf(REALS), leaf(POSITIVE)), 1
    ),
    "Independent Bernoulli": lambda lib, leaf: lib.distributions.Independent(
        lib.distributions.Bernoulli(leaf(CHANCES)), 1
    ),
    "TransformedDistribution": lambda lib, leaf: lib.distributions.TransformedDistribution(
        lib.distributions.Normal(leaf(REALS), leaf(POSITIVE)),
        [
            lib.distributions.AffineTransform(0.5, leaf([-2.0, 1.5, 0.7])),
            lib.distributions.SigmoidTransform(),
        ],
    ),
    "TransformedDistribution tanh": lambda lib, leaf: lib.distributions.TransformedDistribution(
        lib.distributions.Independent(lib.distributions.Normal(leaf(REALS), leaf([[0.1] * 3] * 2)), 1),
        [lib.distributions.TanhTransform(cache_size=1)],
    ),
    "MixtureSameFamily": lambda lib, leaf: lib.distributions.MixtureSameFamily(
        lib.distributions.Categorical(leaf(SHARES)), lib.distributions.Normal(leaf(REALS), leaf(POSITIVE))
    ),
    "MixtureSameFamily vectors": lambda lib, leaf: lib.distributions.MixtureSameFamily(
        lib.distributions.Categorical(leaf([0.4, 0.6])),
        lib.distributions.Independent(lib.distributions.Normal(leaf(REALS), leaf(POSITIVE)), 1),
    ),
}


class Leaves:
    """Makes tensors that want gradients, and remembers them."""

    def __init__(self, library: Any, dtype: str = "float32") -> None:
        self.library, self.dtype = library, getattr(library, dtype)
        self.made: list = []

    def __call__(self, numbers: Any) -> Any:
        tensor = self.library.tensor(numbers, dtype=self.dtype, requires_grad=True)
        self.made.append(tensor)
        return tensor

    def gradients(self, result: Any) -> list:
        """Of a weighted sum, so that elements cannot cancel."""
        weights = self.library.arange(1, result.numel() + 1, dtype=result.dtype).reshape(result.shape)
        self.library.nan_to_num(result, posinf=0.0, neginf=0.0).mul(weights).sum().backward()
        found = [leaf.grad for leaf in self.made]
        for leaf in self.made:
            leaf.grad = None
        return found


def array(tensor: Any) -> np.ndarray | None:
    return None if tensor is None else np.asarray(tensor.detach().numpy())


def outcome(call: Callable) -> Any:
    """What a call gives: a value, or the type of its exception."""
    try:
        return call()
    except Exception as failure:
        return type(failure)
