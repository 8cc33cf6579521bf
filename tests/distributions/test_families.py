"""Every distribution against PyTorch's: what it says of itself, its moments, samples, densities and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad
from tests.distributions.families import FAMILIES, LIBRARIES, Leaves, array, outcome

# PyTorch's Wishart says so of every sample.
pytestmark = pytest.mark.filterwarnings("ignore:Singular sample detected")
every_family = pytest.mark.parametrize("name", FAMILIES)


def pair(name: str, dtype: str = "float32") -> list[tuple[Any, Leaves, Any]]:
    """The library, the leaves and the distribution, ours and PyTorch's."""
    made = []
    for library in LIBRARIES:
        leaves = Leaves(library, dtype)
        made.append((library, leaves, FAMILIES[name](library, leaves)))
    return made


def agree(ours: Any, theirs: Any, what: str, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, cleargrad.Tensor), f"{what}: {ours!r}"
        assert tuple(ours.shape) == tuple(theirs.shape), what
        assert str(ours.dtype) == str(theirs.dtype), what
        np.testing.assert_allclose(array(ours), array(theirs), rtol, atol, err_msg=what)
    elif isinstance(theirs, type):
        assert isinstance(ours, type) and issubclass(ours, theirs), f"{what}: {ours!r}, {theirs!r}"
    else:
        assert repr(ours) == repr(theirs), what


def drawn(library: Any, call: Callable, seed: int = 5) -> Any:
    library.manual_seed(seed)
    return outcome(call)


@every_family
def test_says_the_same_of_itself(name: str) -> None:
    (_, _, ours), (_, _, theirs) = pair(name)
    for fact in ("batch_shape", "event_shape", "has_rsample", "has_enumerate_support", "support"):
        mine, other = (outcome(lambda d=d, fact=fact: getattr(d, fact)) for d in (ours, theirs))
        assert repr(mine) == repr(other), fact
    if isinstance(getattr(theirs, "param_shape", None), tuple):
        assert repr(ours.param_shape) == repr(theirs.param_shape)
    assert repr(ours) == repr(theirs)
    assert repr(ours.arg_constraints) == repr(theirs.arg_constraints)


@every_family
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments(name: str, dtype: str) -> None:
    for fact in ("mean", "mode", "variance", "stddev", "entropy", "perplexity"):
        results, gradients = [], []
        for _, leaves, d in pair(name, dtype):
            value = outcome(lambda d=d, fact=fact: getattr(d, fact))
            value = outcome(value) if fact in ("entropy", "perplexity") else value
            results.append(value)
            # Gradients are compared in float64: some of the formulas cancel.
            differentiable = dtype == "float64" and getattr(value, "requires_grad", False)
            gradients.append(leaves.gradients(value) if differentiable else [])
        agree(*results, f"{name}.{fact}", rtol=2e-4, atol=2e-5)
        assert len(gradients[0]) == len(gradients[1]), f"gradients of {fact}"
        for mine, other in zip(*gradients, strict=True):
            same_gradient(mine, other, f"{name}.{fact}")


def same_gradient(ours: Any, theirs: Any, what: str, rtol: float = 2e-3) -> None:
    assert (ours is None) == (theirs is None), f"gradient of {what}"
    if theirs is None:
        return
    mine, other = array(ours), array(theirs)
    usable = np.isfinite(other)
    scale = np.abs(other[usable]).max(initial=0.0)
    np.testing.assert_allclose(mine[usable], other[usable], rtol, 1e-4 * scale + 1e-5, err_msg=what)


@every_family
@pytest.mark.parametrize("shape", [(), (4,), (3, 2)])
def test_sample(name: str, shape: tuple) -> None:
    (lib, _, ours), (_, _, theirs) = pair(name)
    mine = drawn(lib, lambda: ours.sample(shape))
    other = drawn(torch, lambda: theirs.sample(shape))
    agree(mine, other, f"{name}.sample{shape}", rtol=2e-6, atol=1e-6)
    assert not mine.requires_grad
    # Both streams stand at the same place: whatever is drawn next is equal too.
    assert lib.rand(1).item() == torch.rand(1).item()


@every_family
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rsample(name: str, dtype: str) -> None:
    results, gradients = [], []
    for library, leaves, d in pair(name, dtype):
        value = drawn(library, lambda d=d: d.rsample((5,)))
        results.append(value)
        # PyTorch overwrites what the gradient of its Wishart samples needs.
        differentiable = getattr(value, "requires_grad", False) and not name.startswith("Wishart")
        gradients.append(leaves.gradients(value) if differentiable else [])
    agree(*results, f"{name}.rsample", rtol=2e-6, atol=1e-6)
    for mine, other in zip(*gradients, strict=True):
        same_gradient(mine, other, f"{name}.rsample")


def values_of(name: str, d: Any) -> np.ndarray:
    """Values to score: samples of PyTorch's distribution, the same for both."""
    torch.manual_seed(11)
    return d.sample((4,)).numpy()


@every_family
def test_log_prob(name: str) -> None:
    made = pair(name)
    values = values_of(name, made[1][2])
    results, gradients = [], []
    for library, leaves, d in made:
        value = library.tensor(values)
        result = outcome(lambda d=d, value=value: d.log_prob(value))
        results.append(result)
        gradients.append(leaves.gradients(result) if getattr(result, "requires_grad", False) else [])
    agree(*results, f"{name}.log_prob", rtol=1e-4, atol=2e-5)
    for mine, other in zip(*gradients, strict=True):
        same_gradient(mine, other, f"{name}.log_prob")


@every_family
def test_cdf_and_icdf(name: str) -> None:
    made = pair(name)
    values = values_of(name, made[1][2])
    chances = np.linspace(0.05, 0.95, 4, dtype=np.float32).reshape([4] + [1] * (values.ndim - 1))
    chances = np.broadcast_to(chances, values.shape).copy()
    for fact, points in (("cdf", values), ("icdf", chances)):
        results = []
        for library, _, d in made:
            value, call = library.tensor(points), getattr(d, fact)
            results.append(outcome(lambda call=call, value=value: call(value)))
        agree(*results, f"{name}.{fact}", rtol=1e-4, atol=1e-5)


@every_family
def test_expand(name: str) -> None:
    made = [(library, d) for library, _, d in pair(name)]
    wide = (2, *made[1][1].batch_shape)
    expanded = [(library, outcome(lambda d=d: d.expand(wide))) for library, d in made]
    (_, ours), (_, theirs) = expanded
    assert repr(ours) == repr(theirs)
    assert (ours.batch_shape, ours.event_shape) == (tuple(theirs.batch_shape), tuple(theirs.event_shape))
    assert type(ours) is type(made[0][1])
    samples = [drawn(library, lambda d=d: d.sample((2,))) for library, d in expanded]
    agree(*samples, f"{name}.expand.sample", rtol=2e-6, atol=1e-6)
    scores = [outcome(lambda lib=lib, d=d: d.log_prob(lib.tensor(samples[1].numpy()))) for lib, d in expanded]
    agree(*scores, f"{name}.expand.log_prob", rtol=1e-4, atol=2e-5)
    agree(outcome(lambda: ours.mean), outcome(lambda: theirs.mean), f"{name}.expand.mean")


@every_family
@pytest.mark.parametrize("expand", [True, False])
def test_enumerate_support(name: str, expand: bool) -> None:
    results = [outcome(lambda d=d: d.enumerate_support(expand)) for _, _, d in pair(name)]
    agree(*results, f"{name}.enumerate_support")


def test_gradient_of_wishart_samples() -> None:
    """E[W] = df · Σ, so the mean of samples moves with Σ by df."""
    sigma = cleargrad.eye(2, dtype=cleargrad.float64).requires_grad_()
    cleargrad.manual_seed(0)
    cleargrad.distributions.Wishart(6.0, sigma).rsample((4000,)).mean(0)[0, 0].backward()
    assert sigma.grad[0, 0].item() == pytest.approx(6.0, rel=0.05)
    assert sigma.grad[1, 1].item() == pytest.approx(0.0, abs=0.05)
