"""torch.nn.utils.prune."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.utils.prune

import cleargrad as cg
from tests.oracle import same

CHOICES: list[Callable] = [
    lambda prune, module: prune.identity(module, "weight"),
    lambda prune, module: prune.random_unstructured(module, "weight", 0.3),
    lambda prune, module: prune.random_unstructured(module, "weight", 7),
    lambda prune, module: prune.l1_unstructured(module, "weight", 0.0),
    lambda prune, module: prune.l1_unstructured(module, "weight", 5),
    lambda prune, module: prune.l1_unstructured(module, "weight", 5, importance_scores=module.weight + 1),
    lambda prune, module: prune.random_structured(module, "weight", 2, dim=0),
    lambda prune, module: prune.ln_structured(module, "weight", 0.5, n=2, dim=1),
    lambda prune, module: prune.ln_structured(module, "weight", 1, n=float("-inf"), dim=-1),
    lambda prune, module: prune.custom_from_mask(module, "weight", (module.weight > 0).float()),
]


def state(module: Any) -> list:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return [[name for name, _ in tensors], [tensor.detach() for _, tensor in tensors], module.weight.detach()]


@pytest.mark.parametrize("second", CHOICES)
@pytest.mark.parametrize("first", CHOICES)
def test_one_after_another(first: Callable, second: Callable) -> None:
    def run(T: Any) -> Any:
        prune = T.nn.utils.prune
        T.manual_seed(0)
        module = T.nn.Conv2d(2, 4, 3)
        once = state(first(prune, module))
        twice = state(second(prune, module))
        output = module(T.ones(1, 2, 5, 5))
        output.sum().backward()
        grad = module.weight_orig.grad.clone()
        hooks = [type(hook).__name__ for hook in module._forward_pre_hooks.values()]
        prune.remove(module, "weight")
        return once, twice, output, grad, hooks, state(module), len(module._forward_pre_hooks)

    same(run)


def test_several_tensors_as_one() -> None:
    def run(T: Any) -> Any:
        prune = T.nn.utils.prune
        T.manual_seed(0)
        model = T.nn.Sequential(T.nn.Linear(4, 6), T.nn.Linear(6, 3))
        prune.l1_unstructured(model[0], "weight", 3)
        pairs = [(layer, "weight") for layer in model]
        prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=0.4)
        return [state(layer) for layer in model], prune.is_pruned(model), list(model.state_dict())

    same(run)


def test_a_method_of_the_users() -> None:
    def run(T: Any) -> Any:
        prune = T.nn.utils.prune

        class EveryOther(prune.BasePruningMethod):
            PRUNING_TYPE = "unstructured"

            def compute_mask(self, t: Any, default_mask: Any) -> Any:
                mask = default_mask.clone()
                mask.view(-1)[::2] = 0
                return mask

        T.manual_seed(0)
        module = T.nn.Linear(3, 3)
        EveryOther.apply(module, "weight")
        EveryOther.apply(module, "weight")
        (hook,) = module._forward_pre_hooks.values()
        return state(module), len(hook), type(hook[0]).__name__, EveryOther().prune(T.arange(1.0, 5.0))

    same(run)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (TypeError, lambda prune, module: prune.l1_unstructured(module, "weight", "all")),
        (ValueError, lambda prune, module: prune.l1_unstructured(module, "weight", 1.5)),
        (ValueError, lambda prune, module: prune.l1_unstructured(module, "weight", -1)),
        (ValueError, lambda prune, module: prune.l1_unstructured(module, "weight", 1000)),
        (ValueError, lambda prune, module: prune.random_structured(module, "bias", 1, dim=0)),
        (IndexError, lambda prune, module: prune.random_structured(module, "weight", 1, dim=2)),
        (AssertionError, lambda prune, module: prune.custom_from_mask(module, "weight", module.bias)),
        (ValueError, lambda prune, module: prune.remove(module, "weight")),
        (AttributeError, lambda prune, module: prune.l1_unstructured(module, "no_such", 1)),
        (TypeError, lambda prune, module: prune.global_unstructured(3, prune.L1Unstructured, amount=1)),
        (
            TypeError,
            lambda prune, module: prune.global_unstructured(
                [(module, "weight")], prune.RandomStructured, amount=1
            ),
        ),
    ],
)
def test_refusals_leave_the_module_alone(kind: type, call: Callable) -> None:
    for T in (cg, torch):
        module = T.nn.Linear(3, 2)
        with pytest.raises(kind):
            call(T.nn.utils.prune, module)
        assert sorted(module.state_dict()) == ["bias", "weight"]
        assert not T.nn.utils.prune.is_pruned(module)
