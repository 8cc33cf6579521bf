"""Recurrent modules against PyTorch: same seed, same weights, outputs, gradients; padded and packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

X = np.random.default_rng(0).standard_normal((4, 3, 5)).astype(np.float32)  # (steps, batch, width)


def grads(module: Any) -> list:
    return [parameter.grad for parameter in module.parameters()]


def state(T: Any, layers: int, width: int, seed: int = 1) -> Any:
    values = np.random.default_rng(seed).standard_normal((layers, 3, width)).astype(np.float32)
    return T.tensor(values, requires_grad=True)


def outputs_of(last: Any) -> tuple:
    return last if isinstance(last, tuple) else (last,)


def total(T: Any, *tensors: Any) -> Any:
    """One number that every output has another share in."""
    found = 0.0
    for out in tensors:
        weights = T.arange(1.0, out.numel() + 1).reshape(out.shape)
        found = found + (out * weights).sum() / out.numel()
    return found


KINDS = ["RNN", "LSTM", "GRU"]
SETTINGS = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"num_layers": 3, "dropout": 0.4, "bias": False},
    {"batch_first": True, "bidirectional": True},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "states"])
def test_padded(kind: str, settings: dict, given: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(3)
        module = getattr(T.nn, kind)(5, 6, **settings)
        weights = module.state_dict()
        x = T.tensor(X, requires_grad=True)
        if settings.get("batch_first"):
            x = x.transpose(0, 1).detach().requires_grad_()
        layers = settings.get("num_layers", 1) * (1 + settings.get("bidirectional", False))
        states = [state(T, layers, 6, seed) for seed in range(2 if kind == "LSTM" else 1)]
        hx = (tuple(states) if kind == "LSTM" else states[0]) if given else None
        out, last = module(x, hx)
        total(T, out, *outputs_of(last)).backward()
        return dict(weights), out, outputs_of(last), x.grad, [s.grad for s in states], grads(module)

    same(run, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(
    "settings", [{"proj_size": 2}, {"proj_size": 3, "num_layers": 2, "bidirectional": True}]
)
def test_projection(settings: dict) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(3)
        module = T.nn.LSTM(5, 6, **settings)
        out, (h, c) = module(T.tensor(X))
        total(T, out, h, c).backward()
        return out, h, c, grads(module), repr(module), list(module.state_dict())

    same(run, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_initial_bits(kind: str) -> None:
    for T in (cg, torch):
        T.manual_seed(0)
    ours, theirs = (getattr(T.nn, kind)(3, 40, 2, bidirectional=True) for T in (cg, torch))
    for name, value in theirs.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name].numpy(), value.numpy(), err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_unbatched(kind: str, batch_first: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(3)
        module = getattr(T.nn, kind)(5, 6, batch_first=batch_first)
        out, last = module(T.tensor(X[0]))
        last = outputs_of(last)
        again, _ = module(T.tensor(X[1]), last if kind == "LSTM" else last[0])
        return out, last, again

    same(run, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [[4, 3, 1], [2, 4, 3]], ids=repr)
def test_packed(kind: str, bidirectional: bool, lengths: list) -> None:
    def run(T: Any) -> Any:
        rnn = T.nn.utils.rnn
        T.manual_seed(3)
        module = getattr(T.nn, kind)(5, 6, 2, bidirectional=bidirectional)
        x = T.tensor(X, requires_grad=True)
        packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        states = [state(T, 4 if bidirectional else 2, 6, seed) for seed in range(2 if kind == "LSTM" else 1)]
        out, last = module(packed, tuple(states) if kind == "LSTM" else states[0])
        padded, counts = rnn.pad_packed_sequence(out, total_length=5)
        total(T, padded, *outputs_of(last)).backward()
        fields = [out.batch_sizes, out.sorted_indices, out.unsorted_indices]
        return padded, counts, fields, last, x.grad, [s.grad for s in states], grads(module)

    same(run, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_double_backward(kind: str) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(3)
        module = getattr(T.nn, kind)(5, 2, 2, bidirectional=kind == "GRU").double()
        if kind == "LSTM":
            module = T.nn.LSTM(5, 3, proj_size=2).double()
        x = T.tensor(X.astype(np.float64), requires_grad=True)
        out, last = module(x)
        (slope,) = T.autograd.grad(total(T, out, *outputs_of(last)), x, create_graph=True)
        slope.square().sum().backward()
        return x.grad, grads(module)

    same(run, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batched", [True, False])
def test_cells(kind: str, bias: bool, batched: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(3)
        module = getattr(T.nn, kind)(5, 6, bias=bias)
        x = T.tensor(X[0] if batched else X[0, 0], requires_grad=True)
        hx = None
        for _ in range(3):
            hx = module(x, hx)
        total(T, *outputs_of(hx)).backward()
        return outputs_of(hx), x.grad, grads(module), dict(module.state_dict()), repr(module)

    same(run, rtol=1e-4, atol=1e-6)


def test_relu_and_text() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(3)
        first = T.nn.RNN(5, 6, 2, "relu")
        cell = T.nn.RNNCell(5, 6, nonlinearity="relu")
        return (
            first(T.tensor(X)),
            cell(T.tensor(X[0])),
            repr(first),
            repr(cell),
            [len(w) for w in first.all_weights],
        )

    same(run, atol=1e-6)


def test_half_types() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(3)
        module = T.nn.GRU(5, 6).bfloat16()
        out, last = module(T.tensor(X).bfloat16())
        return out.float(), last.float()

    same(run, rtol=0.05, atol=0.02)


def test_errors() -> None:
    def run(T: Any) -> Any:
        nn, x = T.nn, T.zeros(4, 3, 5)
        lstm, gru = nn.LSTM(5, 6), nn.GRU(5, 6)
        state = T.zeros(1, 3, 6)
        calls = [
            lambda: nn.LSTM(5, 6, 0),
            lambda: nn.LSTM(5, 0),
            lambda: nn.LSTM(0, 5),
            lambda: nn.LSTM(5, 6.0),
            lambda: nn.LSTM(5, 6, dropout=2),
            lambda: nn.LSTM(5, 6, batch_first=2),
            lambda: nn.LSTM(5, 6, proj_size=6),
            lambda: nn.GRU(5, 6, proj_size=2),
            lambda: nn.RNN(5, 6, nonlinearity="x"),
            lambda: nn.RNNBase("X", 5, 6),
            lambda: lstm(T.zeros(4, 3, 4)),
            lambda: lstm(T.zeros(5)),
            lambda: lstm(T.zeros(0, 3, 5)),
            lambda: lstm(x, (state, T.zeros(3, 6))),
            lambda: lstm(x, (T.zeros(1, 2, 6), state)),
            lambda: lstm(x[0], (state, state)),
            lambda: gru(x[0], state),
            lambda: gru(x, T.zeros(1, 1, 6)),
            lambda: gru(x.double()),
            lambda: nn.LSTMCell(5, 6)(T.zeros(2, 4)),
            lambda: nn.LSTMCell(5, 6)(T.zeros(2, 2, 5)),
            lambda: nn.LSTMCell(5, 6)(T.zeros(2, 5), (T.zeros(3, 6), T.zeros(2, 6))),
            lambda: nn.GRUCell(5, 6)(T.zeros(2, 5), T.zeros(6)),
            lambda: nn.GRUCell(5, 6)(T.zeros(2, 5), T.zeros(2, 5)),
            lambda: nn.RNNCell(5, 6, nonlinearity="x")(T.zeros(2, 5)),
        ]
        return [failure(call) for call in calls]

    same(run)
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        cg.nn.LSTM(5, 6, dropout=0.5)


# Sequences -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_pad_sequence(side: str, batch_first: bool) -> None:
    def run(T: Any) -> Any:
        rnn = T.nn.utils.rnn
        sequences = [T.arange(6.0).reshape(3, 2), T.ones(1, 2), T.zeros(4, 2)]
        padded = rnn.pad_sequence(sequences, batch_first, -1.0, side)
        return padded.clone(), rnn.unpad_sequence(padded, T.tensor([3, 1, 4]), batch_first)

    same(run)


def test_pack_sequence() -> None:
    def run(T: Any) -> Any:
        rnn = T.nn.utils.rnn
        sequences = [T.arange(3.0), T.arange(4.0), T.ones(1)]
        packed = rnn.pack_sequence(sequences, enforce_sorted=False)
        halves = packed.to(T.float16)
        return (
            repr(packed), tuple(packed), rnn.unpack_sequence(packed), tuple(halves), packed.cpu() is packed,
            rnn.pad_packed_sequence(packed, True, -2, 6), rnn.invert_permutation(T.tensor([2, 0, 1])),
        )  # fmt: skip

    same(run)


def test_sequence_errors() -> None:
    def run(T: Any) -> Any:
        rnn = T.nn.utils.rnn
        packed = rnn.pack_sequence([T.ones(3), T.ones(2)])
        calls = [
            lambda: rnn.PackedSequence(T.zeros(2)),
            lambda: rnn.pack_padded_sequence(T.zeros(4, 3), [2, 3, 1]),
            lambda: rnn.pack_padded_sequence(T.zeros(4, 3), [3, 0, 0]),
            lambda: rnn.pack_padded_sequence(T.zeros(4, 3), [3, 1]),
            lambda: rnn.pack_padded_sequence(T.zeros(0, 3), [3, 1]),
            lambda: rnn.pad_packed_sequence(packed, total_length=2),
            lambda: rnn.pad_sequence([T.zeros(2, 3), T.zeros(3, 2)]),
            lambda: rnn.pad_sequence([]),
            lambda: rnn.pad_sequence(3),
            lambda: rnn.pad_sequence([T.zeros(2)], padding_side="x"),
            lambda: rnn.pack_sequence([T.zeros(2), T.zeros(3)]),
            lambda: T.nn.GRU(1, 2)(rnn.pack_sequence([T.zeros(2, 3)])),
        ]
        return [failure(call) for call in calls]

    same(run)
