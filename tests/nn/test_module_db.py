"""Every module of PyTorch's own test data, on every input: starting weights bit for bit, outputs, gradients,
running statistics, text, copies and pickles are PyTorch's."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.common_modules import ModuleInfo, module_db

import cleargrad as cg

INFOS = {info.name: info for info in module_db if info.name.rpartition(".")[2] in cg.nn.__all__}
TOLERANCE = {torch.float32: (1e-4, 2e-5), torch.float64: (1e-8, 1e-10)}


def ours(value: Any) -> Any:
    """A value of PyTorch as ours: tensors, dtypes, modules' functions, and containers of them."""
    if isinstance(value, torch.nn.Parameter):
        return cg.nn.Parameter(ours(value.detach()), requires_grad=value.requires_grad)
    if isinstance(value, torch.Tensor):
        tensor = cg.tensor(value.detach().numpy())
        return tensor.requires_grad_() if value.requires_grad else tensor
    if isinstance(value, torch.dtype):
        return getattr(cg, str(value).rpartition(".")[2])
    if isinstance(value, (tuple, list)):
        return type(value)(ours(item) for item in value)
    if isinstance(value, dict):
        return {key: ours(item) for key, item in value.items()}
    if isinstance(value, torch.nn.TransformerEncoderLayer):
        return our_layer(value)
    name = getattr(value, "__name__", "")
    if name and getattr(torch.nn.functional, name, None) is value:
        return getattr(cg.nn.functional, name)
    return value


def our_layer(layer: torch.nn.TransformerEncoderLayer) -> Any:
    """The layer that TransformerEncoder is made of, with PyTorch's weights."""
    attention = layer.self_attn
    made = cg.nn.TransformerEncoderLayer(
        attention.embed_dim,
        attention.num_heads,
        layer.linear1.out_features,
        layer.dropout.p,
        ours(layer.activation),
        layer.norm1.eps,
        attention.batch_first,
        layer.norm_first,
        attention.in_proj_bias is not None,
    )
    made = made.to(ours(attention.out_proj.weight.dtype)).train(layer.training)
    made.load_state_dict(ours(dict(layer.state_dict())))
    return made


def fresh(value: Any) -> Any:
    """A copy whose tensors are leaves of their own."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (tuple, list)):
        return type(value)(fresh(item) for item in value)
    if isinstance(value, dict):
        return {key: fresh(item) for key, item in value.items()}
    return value


def tensors_in(value: Any) -> Iterator[Any]:
    if isinstance(value, (torch.Tensor, cg.Tensor)):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def close(actual: Any, expected: Any, dtype: torch.dtype, where: str) -> None:
    assert (actual is None) == (expected is None), f"{where}: {actual} instead of {expected}"
    if expected is None:
        return
    assert tuple(actual.shape) == tuple(expected.shape), where
    assert str(actual.dtype) == str(expected.dtype), where
    rtol, atol = TOLERANCE[dtype]
    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), rtol, atol, err_msg=where)


def equal_states(actual: Any, expected: Any) -> None:
    mine, theirs = actual.state_dict(), expected.state_dict()
    assert list(mine) == list(theirs)
    assert {key: dict(value) for key, value in mine._metadata.items()} == {
        key: dict(value) for key, value in theirs._metadata.items()
    }
    for name, value in theirs.items():
        if torch.nn.parameter.is_lazy(value):
            assert repr(mine[name]) == repr(value)
        else:
            np.testing.assert_array_equal(mine[name].numpy(), value.numpy(), err_msg=name)


def cases(info: ModuleInfo, dtype: torch.dtype, training: bool) -> list:
    torch.manual_seed(1)
    found = list(
        info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    )
    # All of them in float64, some in float32; only LinearCrossEntropyLoss has more than 150.
    most = 150 if dtype == torch.float64 else 15
    return found[:: 1 + len(found) // most]


def build(info: ModuleInfo, case: Any, dtype: torch.dtype, training: bool) -> tuple[Any, Any]:
    arguments = case.constructor_input
    torch.manual_seed(3)
    theirs = info.module_cls(*fresh(arguments.args), **fresh(arguments.kwargs))
    kind = getattr(cg.nn, info.name.rpartition(".")[2])
    args, kwargs = ours(arguments.args), ours(arguments.kwargs)
    cg.manual_seed(3)
    mine = kind(*args, **kwargs)
    return mine.train(training).to(ours(dtype)), theirs.train(training).to(dtype)


def run(module: Any, args: Any, kwargs: Any, library: Any) -> list:
    """Outputs, after a backward pass with the same gradient for both libraries."""
    library.manual_seed(5)
    outputs = list(tensors_in(module(*args, **kwargs)))
    draw = np.random.default_rng(0)
    total = None
    for output in outputs:
        factors = draw.standard_normal(tuple(output.shape))
        if output.requires_grad:
            term = (output * library.tensor(factors).to(output.dtype)).sum()
            total = term if total is None else total + term
    if total is not None:
        total.backward()
    return outputs


def compare(info: ModuleInfo, case: Any, dtype: torch.dtype, training: bool, with_copies: bool) -> None:
    mine, theirs = build(info, case, dtype, training)
    assert repr(mine) == repr(theirs)
    equal_states(mine, theirs)
    copies = [copy.deepcopy(mine), pickle.loads(pickle.dumps(mine))] if with_copies else []
    for other in copies:
        equal_states(other, theirs)
        assert repr(other) == repr(theirs)
    if case.forward_input is None:
        return
    inputs = case.forward_input
    their_inputs = fresh(inputs.args), fresh(inputs.kwargs)
    expected = run(theirs, *their_inputs, torch)
    for module in [mine, *copies]:
        our_inputs = ours(inputs.args), ours(inputs.kwargs)
        actual = run(module, *our_inputs, cg)
        assert len(actual) == len(expected)
        for ours_, theirs_ in zip(actual, expected, strict=True):
            assert ours_.requires_grad == theirs_.requires_grad
            close(ours_, theirs_, dtype, "output")
        for ours_, theirs_ in zip(tensors_in(our_inputs), tensors_in(their_inputs), strict=True):
            if theirs_.is_leaf:
                close(ours_.grad, theirs_.grad, dtype, "gradient of an input")
        named = dict(module.named_parameters())
        for name, parameter in theirs.named_parameters():
            close(named[name].grad, parameter.grad, dtype, f"gradient of {name}")
        for (name, buffer), (_, value) in zip(module.named_buffers(), theirs.named_buffers(), strict=True):
            close(buffer, value, dtype, name)
        assert repr(module) == repr(theirs)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).rpartition(".")[2])
@pytest.mark.parametrize("name", INFOS)
def test_module(name: str, dtype: torch.dtype) -> None:
    info = INFOS[name]
    for training in (True, False) if info.train_and_eval_differ else (True,):
        for number, case in enumerate(cases(info, dtype, training)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compare(info, case, dtype, training, with_copies=number < 2)
