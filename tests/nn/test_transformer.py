"""Attention and transformer modules against PyTorch: weights, outputs, gradients, masks, warnings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from tests.oracle import failure, same

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 5, 8)).astype(np.float32)
Y = RANDOM.standard_normal((2, 4, 8)).astype(np.float32)
PADDING = np.array([[False] * 5, [False, False, False, True, True]])


def grads(module: Any) -> list:
    return [parameter.grad for parameter in module.parameters()]


def quiet(make: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


ATTENTION = [
    {},
    {"batch_first": True, "dropout": 0.3},
    {"bias": False},
    {"add_bias_kv": True, "add_zero_attn": True},
    {"kdim": 3, "vdim": 6},
]


@pytest.mark.parametrize("settings", ATTENTION, ids=repr)
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention(settings: dict, need_weights: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(1)
        module = T.nn.MultiheadAttention(8, 2, **settings)
        query = T.tensor(X, requires_grad=True)
        key = T.tensor(Y[:, :, : settings.get("kdim", 8)])
        value = T.tensor(Y[:, :, : settings.get("vdim", 8)])
        if not settings.get("batch_first"):
            query, key, value = (x.transpose(0, 1).detach().requires_grad_() for x in (query, key, value))
        padding = T.tensor(PADDING[:, 1:])
        out, weights = module(query, key, value, key_padding_mask=padding, need_weights=need_weights)
        (out * T.arange(out.numel()).reshape(out.shape)).sum().backward()
        return dict(module.state_dict()), out, weights, query.grad, grads(module), repr(module)

    same(run, rtol=2e-4, atol=1e-4)


def test_attention_of_one_sequence() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(1)
        module = T.nn.MultiheadAttention(8, 4, batch_first=True)
        x = T.tensor(X[0])
        mask = T.nn.Transformer.generate_square_subsequent_mask(5)
        plain = module(x, x, x, attn_mask=mask, average_attn_weights=False)
        return plain, module(x, x, x, attn_mask=mask, is_causal=True, need_weights=False), mask

    same(run, rtol=1e-4, atol=1e-6)


def test_attention_errors() -> None:
    def run(T: Any) -> Any:
        attention = T.nn.MultiheadAttention
        x = T.tensor(X)
        return [
            failure(call)
            for call in (
                lambda: attention(8, 3),
                lambda: attention(0, 1),
                lambda: attention(8, 2)(x, x, x[0]),
                lambda: attention(8, 2)(x, x, x, is_causal=True),
                lambda: attention(4, 2)(x, x, x),
            )
        ]

    same(run)


LAYERS = [
    {},
    {"norm_first": True, "activation": "gelu", "batch_first": True},
    {"bias": False, "dropout": 0.4, "layer_norm_eps": 1e-3},
]


@pytest.mark.parametrize("settings", LAYERS, ids=repr)
@pytest.mark.parametrize("training", [True, False])
def test_layers(settings: dict, training: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(1)
        encoder = T.nn.TransformerEncoderLayer(8, 2, 16, **settings).train(training)
        decoder = T.nn.TransformerDecoderLayer(8, 2, 16, **settings).train(training)
        x = T.tensor(X if settings.get("batch_first") else X.transpose(1, 0, 2).copy(), requires_grad=True)
        mask = T.nn.Transformer.generate_square_subsequent_mask(5)
        memory = encoder(x, src_mask=mask, is_causal=True)
        out = decoder(x, memory, tgt_mask=mask, memory_key_padding_mask=T.tensor(PADDING))
        out.square().sum().backward()
        states = dict(encoder.state_dict()), dict(decoder.state_dict())
        return states, memory, out, x.grad, grads(encoder), grads(decoder), repr(encoder), repr(decoder)

    same(run, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer(batch_first: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(1)
        module = quiet(lambda: T.nn.Transformer(8, 2, 2, 2, 16, batch_first=batch_first))
        x, y = (T.tensor(z if batch_first else z.transpose(1, 0, 2).copy()) for z in (X, Y))
        mask = module.generate_square_subsequent_mask(4)
        out = module(x, y, tgt_mask=mask, src_key_padding_mask=T.tensor(PADDING))
        out.square().sum().backward()
        return dict(module.state_dict()), out, grads(module), repr(module)

    same(run, rtol=5e-4, atol=2e-5)


@pytest.mark.parametrize("norm", [False, True])
def test_inference_leaves_padding_out(norm: bool) -> None:
    def run(T: Any) -> Any:
        T.manual_seed(1)
        layer = T.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        module = T.nn.TransformerEncoder(layer, 2, T.nn.LayerNorm(8) if norm else None).eval()
        with T.no_grad():
            inferred = module(T.tensor(X), src_key_padding_mask=T.tensor(PADDING))
        ragged = module(T.tensor(X), src_key_padding_mask=T.tensor(PADDING[:, ::-1].copy()))
        return inferred, module(T.tensor(X), src_key_padding_mask=T.tensor(PADDING)), ragged

    same(run, rtol=1e-4, atol=1e-5)


def test_warnings_and_errors() -> None:
    def run(T: Any) -> Any:
        found = []
        for settings in (
            {},
            {"norm_first": True},
            {"batch_first": True, "bias": False},
            {"batch_first": True},
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                T.nn.TransformerEncoder(T.nn.TransformerEncoderLayer(8, 2, **settings), 1)
            found.append([str(each.message) for each in caught if each.category is UserWarning])
        x = T.tensor(X)
        module = quiet(lambda: T.nn.Transformer(8, 2, 1, 1, 16, batch_first=True))
        failures = [
            failure(lambda: T.nn.TransformerEncoderLayer(8, 2, activation="tanh")),
            failure(lambda: module(x, x[:1])),
            failure(lambda: module(x, x[:, :, :4])),
        ]
        return found, failures

    same(run)


def test_deepcopied_layers_are_independent() -> None:
    layer = cg.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    stack = cg.nn.TransformerEncoder(layer, 2)
    assert stack.layers[0].linear1.weight is not stack.layers[1].linear1.weight
