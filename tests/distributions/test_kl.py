"""kl_divergence: every pair that PyTorch knows, which pairs it does not, and how subclasses find their pair."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad
from tests.distributions.families import FAMILIES, LIBRARIES, Leaves, array, outcome
from tests.distributions.test_families import agree, same_gradient

# Two of each kind, so that a family meets itself with other parameters.
KINDS: dict[str, list[str]] = {}
for family in FAMILIES:
    KINDS.setdefault(family.split()[0], []).append(family)
SECOND = {
    "Normal": lambda lib, leaf: lib.distributions.Normal(leaf([0.1, 0.2, 0.3]), leaf([2.0, 0.5, 1.0])),
    "Laplace": lambda lib, leaf: lib.distributions.Laplace(leaf([0.1, 0.2, 0.3]), leaf([2.0, 0.5, 1.0])),
    "Cauchy": lambda lib, leaf: lib.distributions.Cauchy(leaf([0.1, 0.2, 0.3]), leaf([2.0, 0.5, 1.0])),
    "Gumbel": lambda lib, leaf: lib.distributions.Gumbel(leaf([0.1, 0.2, 0.3]), leaf([2.0, 0.5, 1.0])),
    "Uniform": lambda lib, leaf: lib.distributions.Uniform(leaf([-9.0, 0.5, -3.0]), leaf([9.0, 0.9, 20.0])),
    "Exponential": lambda lib, leaf: lib.distributions.Exponential(leaf([2.0, 0.5, 1.0])),
    "Gamma": lambda lib, leaf: lib.distributions.Gamma(leaf([2.0, 0.5, 1.0]), leaf([0.3, 1.0, 4.0])),
    "Beta": lambda lib, leaf: lib.distributions.Beta(leaf([2.0, 0.5, 1.0]), leaf([0.3, 1.0, 4.0])),
    "Pareto": lambda lib, leaf: lib.distributions.Pareto(leaf([0.2, 0.5, 9.0]), leaf([0.3, 1.0, 4.0])),
    "HalfNormal": lambda lib, leaf: lib.distributions.HalfNormal(leaf([2.0, 0.5, 1.0])),
    "Dirichlet": lambda lib, leaf: lib.distributions.Dirichlet(leaf([2.0, 0.5, 1.0])),
    "Poisson": lambda lib, leaf: lib.distributions.Poisson(leaf([2.0, 0.5, 1.0])),
    "Bernoulli": lambda lib, leaf: lib.distributions.Bernoulli(leaf([0.0, 1.0, 0.4])),
    "Binomial": lambda lib, leaf: lib.distributions.Binomial(7, leaf([0.2, 0.9, 0.4])),
    "Geometric": lambda lib, leaf: lib.distributions.Geometric(leaf([0.2, 0.9, 0.4])),
    "ContinuousBernoulli": lambda lib, leaf: lib.distributions.ContinuousBernoulli(leaf([0.2, 0.9, 0.4])),
    "Categorical": lambda lib, leaf: lib.distributions.Categorical(leaf([0.0, 0.6, 0.4])),
    "OneHotCategorical": lambda lib, leaf: lib.distributions.OneHotCategorical(leaf([0.2, 0.6, 0.2])),
    "LogNormal": lambda lib, leaf: lib.distributions.LogNormal(leaf([0.1, 0.2, 0.3]), leaf([2.0, 0.5, 1.0])),
    "MultivariateNormal": FAMILIES["MultivariateNormal scale"],
    "LowRankMultivariateNormal": lambda lib, leaf: lib.distributions.LowRankMultivariateNormal(
        leaf([0.1, 0.2, 0.3]), leaf([[0.3], [0.9], [-0.4]]), leaf([0.5, 0.6, 0.7])
    ),
    "Independent": lambda lib, leaf: lib.distributions.Independent(
        lib.distributions.Normal(leaf([[0.1, 0.2, 0.3]] * 2), 1.0), 1
    ),
}


@pytest.mark.parametrize(("p", "q"), list(itertools.product(KINDS, SECOND)))
def test_pairs(p: str, q: str) -> None:
    for first in KINDS[p]:
        results, gradients = [], []
        for library in LIBRARIES:
            leaves = Leaves(library, "float64")
            pair = FAMILIES[first](library, leaves), SECOND[q](library, leaves)
            result = outcome(lambda pair=pair, lib=library: lib.distributions.kl_divergence(*pair))
            results.append(result)
            gradients.append(leaves.gradients(result) if getattr(result, "requires_grad", False) else [])
        if results[1] is IndexError:
            continue  # PyTorch cannot broadcast the mask of its infinite values; we can
        agree(*results, f"{first}, {q}", rtol=1e-5, atol=1e-7)
        if isinstance(results[1], torch.Tensor) and np.isfinite(array(results[1])).all():
            for mine, other in zip(*gradients, strict=True):
                same_gradient(mine, other, f"{first}, {q}")


def test_a_divergence_of_ones_own() -> None:
    from cleargrad.distributions import Normal, kl_divergence, register_kl

    class Mine(Normal):
        pass

    class Yours(Normal):
        pass

    p, q = Mine(0.0, 1.0), Yours(1.0, 2.0)
    expected = kl_divergence(Normal(0.0, 1.0), Normal(1.0, 2.0))
    assert kl_divergence(p, q).item() == expected.item()

    register_kl(Mine, Normal)(lambda p, q: "left")
    assert kl_divergence(p, q) == "left"
    register_kl(Normal, Yours)(lambda p, q: "right")
    with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Mine, Yours\)"):
        assert kl_divergence(p, q) == "left"
    with pytest.raises(TypeError, match="type_p"):
        register_kl(int, Normal)


@pytest.mark.parametrize("library", LIBRARIES)
def test_transformed_alike_or_not(library: Any) -> None:
    d = library.distributions
    base = d.Normal(library.zeros(3), 1.0), d.Normal(library.ones(3), 1.0)
    plain = [d.TransformedDistribution(b, [d.ExpTransform()]) for b in base]
    other = d.TransformedDistribution(base[1], [d.SoftplusTransform()])
    assert d.kl_divergence(*plain).tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(NotImplementedError):
        d.kl_divergence(plain[0], other)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_cannot_be_compared(library: Any) -> None:
    d = library.distributions
    vectors = [d.MultivariateNormal(library.zeros(n), library.eye(n)) for n in (2, 3)]
    with pytest.raises(ValueError, match="different event shapes"):
        d.kl_divergence(*vectors)
    with pytest.raises(NotImplementedError):
        d.kl_divergence(d.Binomial(3, library.tensor(0.5)), d.Binomial(4, library.tensor(0.5)))
    with pytest.raises(NotImplementedError):
        d.kl_divergence(d.VonMises(0.0, 1.0), d.Normal(0.0, 1.0))


def test_divergence_is_the_mean_of_log_ratios() -> None:
    """Independently of PyTorch: against samples."""
    cleargrad.manual_seed(0)
    d = cleargrad.distributions
    cases = [
        (d.Gamma(3.0, 2.0), d.Normal(1.0, 2.0)),
        (d.Beta(2.0, 3.0), d.Gamma(2.0, 3.0)),
        (d.Normal(0.5, 1.0), d.Gumbel(0.0, 2.0)),
        (d.Uniform(0.2, 0.9), d.Beta(2.0, 3.0)),
    ]
    for p, q in cases:
        x = p.sample((20000,))
        ratio = p.log_prob(x) - q.log_prob(x)
        assert d.kl_divergence(p, q).item() == pytest.approx(ratio.mean().item(), abs=0.02)
