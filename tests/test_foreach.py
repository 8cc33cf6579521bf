"""Operations on lists of tensors, checks as functions, and the private names optimizers are written with."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import cleargrad as cg
from cleargrad.foreach import FUNCTIONS, UNARY
from tests.oracle import failure, same


def tensors(T: Any) -> list:
    return [T.tensor([0.5, 0.25]), T.tensor([[0.75], [0.125]]), T.tensor(0.3)]


def test_every_name_is_there() -> None:
    theirs = {name for name in dir(torch) if name.startswith("_foreach_")}
    assert theirs - set(FUNCTIONS) == {"_foreach_powsum"} and set(FUNCTIONS) <= theirs


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    def run(T: Any) -> Any:
        written = tensors(T)
        result = getattr(T, f"_foreach_{name}_")(written)
        return getattr(T, f"_foreach_{name}")(tensors(T)), written, result is written

    same(run)


@pytest.mark.parametrize(
    "name", ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min"]
)
def test_binary(name: str) -> None:
    def run(T: Any) -> Any:
        operands: list = [0.4, [0.1, 0.5, 2.0], [x * 1.5 for x in tensors(T)]]
        results = []
        for operand in operands:
            written = tensors(T)
            getattr(T, f"_foreach_{name}_")(written, operand)
            results += [written, getattr(T, f"_foreach_{name}")(tensors(T), operand)]
        return results

    same(run)


def test_the_others() -> None:
    def run(T: Any) -> Any:
        a, b, c = tensors(T), [x + 1 for x in tensors(T)], [x - 2 for x in tensors(T)]
        results = [T._foreach_lerp(a, b, 0.3), T._foreach_lerp(a, b, c), T._foreach_add(a, b, alpha=2)]
        for name in ("_foreach_addcmul", "_foreach_addcdiv"):
            for values in ((), (0.5,), ([1.0, 2.0, 3.0],), (T.tensor([1.0, 2.0, 3.0]),)):
                results.append(getattr(T, name)(a, b, c, *values))
        results += [T._foreach_norm(a), T._foreach_norm(a, 1), T._foreach_max(a), T._foreach_pow(2.0, a)]
        T._foreach_copy_(a, b)
        T._foreach_zero_(c)
        return results, a, c, T._foreach_mul(a, T.tensor(2.0))

    same(run)


def test_gradients_pass() -> None:
    def run(T: Any) -> Any:
        x = T.ones(2, requires_grad=True)
        sum(y.sum() for y in T._foreach_mul([x, x * 2], [x, 3 * x])).backward()
        return x.grad

    same(run)


def test_wrong_lists() -> None:
    def run(T: Any) -> Any:
        a = tensors(T)
        calls = (
            *(lambda: T._foreach_add([], 1), lambda: T._foreach_add(3, 1), lambda: T._foreach_exp([])),
            *(lambda: T._foreach_add(a, [1.0]), lambda: T._foreach_add(a, a[:2])),
        )
        return [failure(call) for call in calls]

    same(run)


def test_checks() -> None:
    def run(T: Any) -> Any:
        names = ("_check", "_check_index", "_check_value", "_check_type", "_check_not_implemented")
        said = [failure(lambda name=name: getattr(T, name)(False, lambda: "no")) for name in names]
        said += [failure(lambda name=name: getattr(T, name)(True)) for name in names]
        said += [
            failure(lambda: T._assert(T.tensor(0) > 1, "no")),
            T._assert(True, "no"),
            T._shape_as_tensor(T.ones(2, 3)),
        ]
        return said, failure(lambda: T._check_tensor_all(T.tensor([True, False])))

    same(run)


def test_an_optimizer_written_with_private_names() -> None:
    def run(T: Any) -> Any:
        from importlib import import_module

        private = import_module(f"{T.__name__}.optim.optimizer")

        class Mine(private.Optimizer):
            def __init__(self, params: Any) -> None:
                super().__init__(params, {"lr": 0.1, "differentiable": False})

            @private._use_grad_for_differentiable
            def step(self, closure: Any = None) -> bool:
                fused, foreach = private._default_to_fused_or_foreach(self.param_groups[0]["params"], False)
                params = [p for group in self.param_groups for p in group["params"]]
                T._foreach_add_(params, [p.grad for p in params], alpha=-private._get_value(T.tensor(0.1)))
                return fused or foreach or T.is_grad_enabled()

        x = T.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        return Mine([x]).step(), x, T.is_grad_enabled()

    same(run)


def test_products_of_groups() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        ends = T.tensor([4, 4, 8], dtype=T.int32)
        tokens, experts = T.randn(8, 4, requires_grad=True), T.randn(3, 4, 8, requires_grad=True)
        out = T.nn.functional.grouped_mm(tokens, experts, offs=ends)
        (out * T.arange(64.0).view(8, 8)).sum().backward()
        batches = T.nn.functional.grouped_mm(T.randn(2, 4, 4), T.randn(2, 4, 4))
        both = T.nn.functional.grouped_mm(T.randn(4, 8), T.randn(8, 4), offs=ends)
        columns = T.nn.functional.grouped_mm(T.randn(3, 4, 4), T.randn(4, 8), offs=ends)
        failed = [
            failure(lambda: T.nn.functional.grouped_mm(tokens, experts)),
            failure(lambda: T.nn.functional.grouped_mm(T.ones(8, 8), experts, offs=ends)),
        ]
        return out, tokens.grad, experts.grad, batches, both, columns, failed

    same(run)


def test_rows_past_the_last_group_are_zero() -> None:
    ends = cg.tensor([1, 2], dtype=cg.int32)
    assert cg.nn.functional.grouped_mm(cg.ones(3, 4), cg.ones(2, 4, 1), offs=ends).tolist() == [
        [4.0],
        [4.0],
        [0.0],
    ]


def test_lists_by_device_and_dtype() -> None:
    import torch.utils._foreach_utils

    import cleargrad.utils._foreach_utils

    def run(T: Any) -> Any:
        group = T.utils._foreach_utils._group_tensors_by_device_and_dtype
        first = [T.ones(1), T.ones(2).double(), T.ones(3)]
        lists = [first, [T.zeros(1), None, T.zeros(3)], []]
        found = group(lists, with_indices=True)
        by_name = sorted((str(place), str(kind), *parts) for (place, kind), parts in found.items())
        failed = failure(lambda: group([[None], first[:1]]))
        return by_name, [parts[1] for parts in group(lists).values()], failed

    same(run)
    assert torch.utils._foreach_utils is not cleargrad.utils._foreach_utils
