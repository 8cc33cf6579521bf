"""What distributions refuse: the same arguments as PyTorch's, with the same exceptions and the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cleargrad
from tests.distributions.families import LIBRARIES, outcome

# Calls that fail, and the words of the message that programs look for.
BAD: list[tuple[str, Callable]] = [
    ("Expected parameter scale", lambda t: t.distributions.Normal(0.0, -1.0)),
    ("Expected parameter loc", lambda t: t.distributions.Normal(t.tensor([float("nan")]), 1.0)),
    (r"to satisfy the constraint GreaterThan\(lower_bound=0.0\)", lambda t: t.distributions.Gamma(0.0, 1.0)),
    ("Expected parameter low", lambda t: t.distributions.Uniform(2.0, 1.0)),
    ("Expected parameter probs", lambda t: t.distributions.Bernoulli(1.5)),
    ("to be positive", lambda t: t.distributions.Geometric(t.tensor([0.0, 0.5]))),
    ("Either `probs` or `logits`", lambda t: t.distributions.Bernoulli()),
    ("Either `probs` or `logits`", lambda t: t.distributions.Categorical(t.ones(2), t.ones(2))),
    ("at least one-dimensional", lambda t: t.distributions.Categorical(t.tensor(1.0))),
    ("Expected parameter probs", lambda t: t.distributions.Categorical(t.tensor([-1.0, 3.0]))),
    (
        "Expected parameter logits",
        lambda t: t.distributions.Categorical(logits=t.tensor([float("nan"), 0.0])),
    ),
    ("at least one-dimensional", lambda t: t.distributions.Dirichlet(t.tensor(1.0))),
    ("Expected parameter concentration", lambda t: t.distributions.Dirichlet(t.tensor([1.0, -1.0]))),
    ("Expected parameter concentration", lambda t: t.distributions.Beta(-1.0, 1.0)),
    ("total_count", lambda t: t.distributions.Binomial(t.tensor([-1.0]), t.tensor([0.5]))),
    ("inhomogeneous total_count", lambda t: t.distributions.Multinomial(t.tensor([1]), t.ones(2))),
    ("Exactly one of", lambda t: t.distributions.MultivariateNormal(t.zeros(2))),
    ("Exactly one of", lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.eye(2), t.eye(2))),
    ("at least two-dimensional", lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.ones(2))),
    ("covariance_matrix", lambda t: t.distributions.MultivariateNormal(t.zeros(2), -t.eye(2))),
    ("scale_tril", lambda t: t.distributions.MultivariateNormal(t.zeros(2), scale_tril=t.ones(2, 2))),
    ("loc must be", lambda t: t.distributions.MultivariateNormal(t.tensor(0.0), t.eye(1))),
    ("cov_factor", lambda t: t.distributions.LowRankMultivariateNormal(t.zeros(2), t.ones(3, 1), t.ones(2))),
    ("cov_diag", lambda t: t.distributions.LowRankMultivariateNormal(t.zeros(2), t.ones(2, 1), t.ones(3))),
    ("reinterpreted_batch_ndims", lambda t: t.distributions.Independent(t.distributions.Normal(0.0, 1.0), 1)),
    (
        "transforms must be",
        lambda t: t.distributions.TransformedDistribution(t.distributions.Normal(0, 1), 3),
    ),
    (
        "Mixture distribution",
        lambda t: t.distributions.MixtureSameFamily(
            t.distributions.Normal(0, 1), t.distributions.Normal(0, 1)
        ),
    ),
    (
        "does not equal",
        lambda t: t.distributions.MixtureSameFamily(
            t.distributions.Categorical(t.ones(3)), t.distributions.Normal(t.zeros(2), 1.0)
        ),
    ),
    ("greater than or equal to 2", lambda t: t.distributions.LKJCholesky(1)),
    ("Exactly one of", lambda t: t.distributions.Wishart(3.0)),
    ("greater than ndim - 1", lambda t: t.distributions.Wishart(1.0, t.eye(3))),
    ("Input arguments must all be", lambda t: t.distributions.Normal("a", 1.0)),
    ("must be a Tensor", lambda t: t.distributions.Normal(0.0, 1.0).log_prob(0.5)),
    ("not broadcastable", lambda t: t.distributions.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2))),
    ("right-most size", lambda t: t.distributions.Dirichlet(t.ones(3)).log_prob(t.ones(2) / 2)),
    ("within the support", lambda t: t.distributions.Bernoulli(0.3).log_prob(t.tensor(0.5))),
    ("within the support", lambda t: t.distributions.Categorical(t.ones(3)).log_prob(t.tensor(3))),
    ("within the support", lambda t: t.distributions.Exponential(1.0).log_prob(t.tensor(-1.0))),
    ("within the support", lambda t: t.distributions.OneHotCategorical(t.ones(3)).log_prob(t.ones(3))),
    ("within the support", lambda t: t.distributions.Normal(0.0, 1.0).cdf(t.tensor(float("nan")))),
    (".*", lambda t: t.distributions.Poisson(1.0).entropy()),
    (".*", lambda t: t.distributions.Normal(0.0, 1.0).enumerate_support()),
    ("does not implement mode", lambda t: t.distributions.Multinomial(2, t.ones(2)).mode),
    (".*", lambda t: t.distributions.Distribution().sample()),
    (".*", lambda t: t.distributions.Distribution(validate_args=False).expand((2,))),
    ("Inhomogeneous", lambda t: t.distributions.Binomial(t.tensor([1.0, 2.0]), t.tensor(0.5)).entropy()),
    ("cache_size", lambda t: t.distributions.ExpTransform(cache_size=2)),
    ("numbers of elements", lambda t: t.distributions.ReshapeTransform((2,), (3,))),
    ("Cannot transform", lambda t: t.distributions.biject_to(t.distributions.constraints.boolean)),
]


@pytest.mark.filterwarnings("ignore:.*does not define")
@pytest.mark.parametrize(("words", "call"), BAD)
def test_refused(words: str, call: Callable) -> None:
    kinds = []
    for library in LIBRARIES:
        with pytest.raises(Exception, match=words) as caught:
            call(library)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


def test_checks_can_be_turned_off() -> None:
    d = cleargrad.distributions
    assert d.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert d.Bernoulli(0.3, validate_args=False).log_prob(cleargrad.tensor(0.5)).isfinite()
    d.Distribution.set_default_validate_args(False)
    try:
        assert d.Normal(0.0, -1.0).scale.item() == -1
    finally:
        d.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        d.Distribution.set_default_validate_args("yes")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_class_that_says_nothing_of_itself(library: Any) -> None:
    class Silent(library.distributions.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        silent = Silent()
    with pytest.warns(UserWarning, match="does not define `support`"):
        silent._validate_sample(library.tensor(0.0))
    with pytest.warns(FutureWarning, match="sample_n"):
        library.distributions.Normal(0.0, 1.0).sample_n(3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_subclasses_expand_only_what_they_can(library: Any) -> None:
    class Named(library.distributions.Normal):
        pass

    class Scaled(library.distributions.Normal):
        def __init__(self, factor: Any) -> None:
            self.factor = factor
            super().__init__(factor, 1.0)

    class Careful(Scaled):
        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Careful, _instance)
            new.factor = self.factor.expand(batch_shape)
            return super().expand(batch_shape, _instance=new)

    assert type(Named(0.0, 1.0).expand((3,))) is Named
    with pytest.raises(NotImplementedError, match=r"custom \.expand"):
        Scaled(library.tensor(2.0)).expand((3,))
    wide = Careful(library.tensor(2.0)).expand((3,))
    assert type(wide) is Careful and wide.factor.shape == wide.loc.shape == (3,)


def test_modules_have_the_names_that_programs_import() -> None:
    from cleargrad.distributions.categorical import Categorical
    from cleargrad.distributions.half_normal import HalfNormal
    from cleargrad.distributions.kl import kl_divergence
    from cleargrad.distributions.normal import Normal
    from cleargrad.distributions.relaxed_categorical import ExpRelaxedCategorical
    from cleargrad.distributions.utils import broadcast_all, probs_to_logits

    assert Normal is cleargrad.distributions.Normal and HalfNormal is cleargrad.distributions.HalfNormal
    assert all(
        map(callable, (Categorical, kl_divergence, ExpRelaxedCategorical, broadcast_all, probs_to_logits))
    )
    assert set(torch.distributions.__all__) <= set(cleargrad.distributions.__all__)
    for name in cleargrad.distributions.__all__:
        assert outcome(lambda name=name: getattr(cleargrad.distributions, name)) is not AttributeError
