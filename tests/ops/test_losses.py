"""What the matrix cannot see of activations, softmax and losses: flags, draws, warnings, names, weights."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.core.generator import default_generator

FF, TF = cg.nn.functional, torch.nn.functional
RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 5)).astype(np.float32)
CLASSES = np.array([0, 3, 2, 4, 1, 3])


def both(array: np.ndarray, grad: bool = False) -> tuple:
    return cg.from_numpy(array.copy()).requires_grad_(grad), torch.from_numpy(array.copy()).requires_grad_(
        grad
    )


def assert_same_gradient(ours: cg.Tensor, theirs: torch.Tensor, a: cg.Tensor, b: torch.Tensor) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-5, atol=2e-6)
    ours.sum().backward()
    theirs.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        "relu6",
        "leaky_relu",
        "elu",
        "celu",
        "selu",
        "silu",
        "mish",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
    ],
)
def test_inplace_flag_writes_the_input(name: str) -> None:
    a, b = both(X, grad=True)
    ours, theirs = a * 1, b * 1
    result = getattr(FF, name)(ours, inplace=True)
    assert result is ours
    assert_same_gradient(ours, getattr(TF, name)(theirs, inplace=True), a, b)


def test_inplace_on_a_leaf_is_refused() -> None:
    with pytest.raises(RuntimeError, match="leaf"):
        FF.relu_(cg.ones(3, requires_grad=True))


def test_random_activations_draw_as_pytorch_does() -> None:
    a, b = both(X, grad=True)
    for function, reference in (
        (lambda x: FF.rrelu(x, 0.1, 0.4, training=True), lambda x: TF.rrelu(x, 0.1, 0.4, training=True)),
        (lambda x: FF.gumbel_softmax(x, tau=0.7), lambda x: TF.gumbel_softmax(x, tau=0.7)),
        (lambda x: FF.gumbel_softmax(x, hard=True), lambda x: TF.gumbel_softmax(x, hard=True)),
    ):
        default_generator.manual_seed(3)
        torch.manual_seed(3)
        a.grad = b.grad = None
        assert_same_gradient(function(a), reference(b), a, b)


def test_relu_passes_no_gradient_at_zero_and_softmax_survives_large_inputs() -> None:
    x = cg.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    FF.relu(x).sum().backward()
    assert x.grad.tolist() == [0, 0, 1]
    assert cg.softmax(cg.tensor([1e4, 0.0, -1e4]), 0).tolist() == [1, 0, 0]
    assert cg.log_softmax(cg.tensor([1e4, 0.0]), 0).tolist() == [0, -1e4]


def test_names_in_the_graph() -> None:
    x, target = cg.from_numpy(X).requires_grad_(), cg.from_numpy(CLASSES)
    names = {
        "ReluBackward0": FF.relu(x),
        "SoftmaxBackward0": FF.softmax(x, 1),
        "LogSoftmaxBackward0": x.log_softmax(1),
        "NllLossBackward0": FF.cross_entropy(x, target),
        "NllLoss2DBackward0": FF.cross_entropy(x.reshape(2, 3, 5), cg.zeros(2, 5, dtype=cg.int64)),
        "MseLossBackward0": FF.mse_loss(x, x.detach()),
        "SmoothL1LossBackward0": FF.smooth_l1_loss(x, x.detach()),
        "HuberLossBackward0": FF.huber_loss(x, x.detach(), reduction="none"),
        "BinaryCrossEntropyBackward0": FF.binary_cross_entropy(x.sigmoid(), x.detach().sigmoid()),
        "BinaryCrossEntropyWithLogitsBackward0": FF.binary_cross_entropy_with_logits(x, x.detach().sigmoid()),
    }
    assert {value.grad_fn.name() for value in names.values()} == set(names)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "options", [{}, {"ignore_index": 3}, {"label_smoothing": 0.3, "ignore_index": 3}], ids=str
)
def test_cross_entropy_with_class_weights(reduction: str, options: dict) -> None:
    a, b = both(X, grad=True)
    (target, reference), (weight, reference_weight) = (
        both(CLASSES),
        both(np.linspace(0.5, 2, 5, dtype=np.float32)),
    )
    ours = FF.cross_entropy(a, target, weight, reduction=reduction, **options)
    theirs = TF.cross_entropy(b, reference, reference_weight, reduction=reduction, **options)
    assert_same_gradient(ours, theirs, a, b)


def test_mean_over_ignored_targets_only_is_nan_with_no_gradient() -> None:
    x = cg.from_numpy(X).requires_grad_()
    loss = FF.cross_entropy(x, cg.full((6,), -100))
    loss.backward()
    assert loss.isnan() and not x.grad.any()


def test_target_out_of_bounds_is_named() -> None:
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        FF.cross_entropy(cg.from_numpy(X), cg.tensor([0, 1, 2, 7, 0, 0]))


@pytest.mark.parametrize("layout", ["padded", "flat"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ctc_behind_log_softmax(layout: str, reduction: str) -> None:
    scores = RNG.standard_normal((9, 3, 5))
    a, b = both(scores, grad=True)
    padded, lengths = np.array([[1, 2, 2, 0], [3, 0, 0, 0], [4, 1, 4, 1]]), np.array([3, 0, 4])
    targets = padded if layout == "padded" else np.array([1, 2, 2, 4, 1, 4, 1])
    inputs, rest = np.array([9, 5, 8]), {"reduction": reduction}
    ours = FF.ctc_loss(a.log_softmax(2), *map(cg.from_numpy, (targets, inputs, lengths)), **rest)
    theirs = TF.ctc_loss(b.log_softmax(2), *map(torch.from_numpy, (targets, inputs, lengths)), **rest)
    assert_same_gradient(ours, theirs, a, b)


def test_ctc_of_an_impossible_target() -> None:
    log_probs = cg.zeros(2, 1, 3).log_softmax(2).requires_grad_()
    arguments = (cg.tensor([[1, 1]]), (2,), (2,))
    assert FF.ctc_loss(log_probs, *arguments, reduction="none").item() == float("inf")
    loss = FF.ctc_loss(log_probs, *arguments, zero_infinity=True)
    loss.backward()
    assert loss.item() == 0 and not log_probs.grad.any()


def test_warnings_are_pytorchs() -> None:
    x, target = cg.from_numpy(X), cg.from_numpy(X[0])
    with pytest.warns(UserWarning, match="Using a target size"):
        FF.mse_loss(x, target)
    with pytest.warns(UserWarning, match="reduction='sum'"):
        total = FF.mse_loss(x, x + 1, size_average=False)
    assert total.item() == pytest.approx(30, rel=1e-5)
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        FF.softmax(x)
    with pytest.warns(UserWarning, match="batchmean"):
        FF.kl_div(x, x.softmax(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FF.mse_loss(x, x)
        FF.kl_div(x, x.softmax(1), reduction="batchmean")


def test_gaussian_variance_below_eps_still_has_a_gradient() -> None:
    a, b = both(np.full((2, 3), 1e-9), grad=True)
    mean, target = np.zeros((2, 3)), np.ones((2, 3))
    ours = FF.gaussian_nll_loss(cg.from_numpy(mean), cg.from_numpy(target), a)
    assert_same_gradient(
        ours, TF.gaussian_nll_loss(torch.from_numpy(mean), torch.from_numpy(target), b), a, b
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "name",
    ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]
    + ["binary_cross_entropy", "binary_cross_entropy_with_logits"],
)
def test_gradient_of_the_target_alone(name: str, reduction: str) -> None:
    """As in mse_loss(noise, model(x)): the input is data, the target was computed."""
    values = [[0.1, 0.7, 0.4], [0.9, 0.2, 0.6]]

    def gradient(lib: Any) -> Any:
        input, target = lib.tensor(values), (lib.tensor(values) * 0.5 + 0.2).requires_grad_()
        loss = getattr(lib.nn.functional, name)(input, target, reduction=reduction)
        return lib.autograd.grad(loss.sum(), target)[0]

    np.testing.assert_allclose(gradient(cg).numpy(), gradient(torch).numpy(), rtol=1e-5)
