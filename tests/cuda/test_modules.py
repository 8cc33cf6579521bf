"""Modules whose parameters are on a GPU make what they need there."""

from __future__ import annotations

from typing import Any

import pytest

import cleargrad as cg
from cleargrad import nn

pytestmark = pytest.mark.usefixtures("cuda")

MODULES: dict[str, Any] = {
    "RNN": (lambda: nn.RNN(3, 4, batch_first=True), (2, 5, 3)),
    "LSTM": (lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True), (5, 2, 3)),
    "LSTM with a projection": (lambda: nn.LSTM(3, 4, proj_size=2), (5, 2, 3)),
    "GRU": (lambda: nn.GRU(3, 4), (5, 2, 3)),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), (2, 3)),
    "GRUCell": (lambda: nn.GRUCell(3, 4), (2, 3)),
    "RNNCell": (lambda: nn.RNNCell(3, 4), (2, 3)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3), (2, 3, 4, 4)),
    "BatchNorm1d, averaged": (lambda: nn.BatchNorm1d(3, momentum=None), (4, 3)),
    "orthogonal": (lambda: nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)), (2, 3)),
    "spectral_norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)), (2, 3)),
    "weight_norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), (2, 3)),
}


def first(result: Any) -> cg.Tensor:
    return first(result[0]) if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", MODULES)
def test_a_step(name: str) -> None:
    make, shape = MODULES[name]
    cg.manual_seed(0)
    module, x = make(), cg.randn(*shape)
    there = make().to("cuda")
    there.load_state_dict(module.state_dict())
    for each, input in ((module, x), (there, x.cuda())):
        first(each(input)).square().sum().backward()
    for ours, cpu in zip(there.parameters(), module.parameters(), strict=True):
        assert ours.grad.is_cuda
        cg.testing.assert_close(ours.grad.cpu(), cpu.grad, rtol=1e-4, atol=1e-5)
    for ours, cpu in zip(there.buffers(), module.buffers(), strict=True):
        assert ours.is_cuda
        cg.testing.assert_close(ours.cpu(), cpu)


def test_made_on_the_device() -> None:
    module = nn.Sequential(nn.Conv1d(2, 3, 1, device="cuda"), nn.BatchNorm1d(3, device="cuda"))
    assert {x.device for x in (*module.parameters(), *module.buffers())} == {cg.device("cuda:0")}


def test_packed_sequences() -> None:
    lstm = nn.LSTM(3, 4).to("cuda")
    packed = nn.utils.rnn.pack_padded_sequence(cg.ones(5, 2, 3, device="cuda"), [3, 5], enforce_sorted=False)
    out, (h, c) = lstm(packed)
    assert out.data.is_cuda and h.is_cuda and c.is_cuda
    assert nn.utils.rnn.pad_packed_sequence(out)[0].shape == (5, 2, 4)


def test_clipping_and_pruning() -> None:
    module = nn.Linear(4, 6).to("cuda")
    module(cg.ones(2, 4, device="cuda")).sum().backward()
    assert nn.utils.clip_grad_norm_(module.parameters(), 1.0).is_cuda
    nn.utils.prune.random_structured(module, "weight", amount=2, dim=0)
    assert module.weight.is_cuda and int((module.weight_mask.cpu() == 0).sum()) == 8
    nn.utils.prune.l1_unstructured(module, "bias", amount=0.5)
    assert int((module.bias.cpu() == 0).sum()) == 3


class Twice(cg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: cg.Tensor) -> cg.Tensor:
        return x * 2

    @staticmethod
    @cg.autograd.function.once_differentiable
    def backward(ctx: Any, grad: cg.Tensor) -> cg.Tensor:
        return grad * 2


def test_functions_of_the_user() -> None:
    x = cg.ones(3, device="cuda", requires_grad=True)
    (grad,) = cg.autograd.grad(Twice.apply(x).square().sum(), x, create_graph=True)
    assert grad.tolist() == [8, 8, 8]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_a_product_with_no_vector_given() -> None:
    value, grad = cg.autograd.functional.vjp(lambda x: x.square().sum(), cg.ones(3, device="cuda"))
    assert value.is_cuda and grad.tolist() == [2, 2, 2]


def test_samples_are_joined_where_they_are() -> None:
    batch = cg.utils.data.default_collate([cg.full((2,), float(k), device="cuda") for k in range(3)])
    assert batch.is_cuda and batch.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_gradients_are_laid_out_as_their_leaves() -> None:
    weight = cg.randn(4, 3, device="cuda", requires_grad=True)
    (cg.randn(5, 3, device="cuda") @ weight.t()).square().sum().backward()
    assert weight.grad.stride() == (3, 1)
