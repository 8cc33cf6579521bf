"""The order in which leaves get their gradients, as hooks see it: PyTorch's, whatever lies where in memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch as oracle

import cleargrad as cg

MODELS = {
    "linear": lambda t: (t.nn.Linear(2, 1), t.ones(3, 2)),
    "linear, three dimensions": lambda t: (t.nn.Linear(2, 1), t.ones(3, 1, 2)),
    "two layers": lambda t: (
        t.nn.Sequential(t.nn.Linear(2, 3), t.nn.ReLU(), t.nn.Linear(3, 1)),
        t.ones(1, 2),
    ),
    "convolution": lambda t: (t.nn.Conv2d(1, 2, 3), t.ones(1, 1, 5, 5)),
    "layer norm": lambda t: (t.nn.LayerNorm(4), t.ones(2, 4)),
    "group norm": lambda t: (t.nn.GroupNorm(2, 4), t.ones(3, 4)),
}
FUNCTIONS = {
    "mul": (2, lambda t, a, b: a * b),
    "addcmul": (3, lambda t, a, b, c: t.addcmul(a, b, c)),
    "cat of 5": (5, lambda t, *leaves: t.cat(leaves)),
    "cat of 8": (8, lambda t, *leaves: t.cat(leaves)),
    "stack of 11": (11, lambda t, *leaves: t.stack(leaves)),
    "chain": (4, lambda t, a, b, c, d: t.cat([a * b, c, (d * a).exp()])),
}


def order(leaves: dict[str, Any], result: Any, kind: str) -> list[str]:
    found: list[str] = []
    for name, leaf in leaves.items():
        if kind == "tensor":
            leaf.register_hook(lambda grad, name=name: found.append(name))
        else:
            leaf.register_post_accumulate_grad_hook(lambda leaf, name=name: found.append(name))
    result().sum().backward()
    return found


@pytest.mark.parametrize("kind", ["tensor", "post-accumulate"])
@pytest.mark.parametrize("name", MODELS)
def test_parameters_get_their_gradients_in_pytorchs_order(name: str, kind: str) -> None:
    def run(torch: Any) -> list[str]:
        model, x = MODELS[name](torch)
        return order(dict(model.named_parameters()), lambda: model(x), kind)

    expected = run(oracle)
    kept = []
    for k in range(20):
        kept.append([object()] * k)  # so that objects lie elsewhere every time
        assert run(cg) == expected


@pytest.mark.parametrize("kind", ["tensor", "post-accumulate"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_leaves_of_one_node_get_their_gradients_in_pytorchs_order(name: str, kind: str) -> None:
    count, function = FUNCTIONS[name]

    def run(torch: Any) -> list[str]:
        leaves = {str(k): torch.ones(2, requires_grad=True) for k in range(count)}
        return order(leaves, lambda: function(torch, *leaves.values()), kind)

    assert run(cg) == run(oracle)
