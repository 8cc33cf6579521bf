"""Hooks of modules: before and after forward and backward, on one module and on all, as in PyTorch."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

import cleargrad as cg
from tests.nn.sample import net
from tests.oracle import failure, same


def test_forward_hooks() -> None:
    def run(T: Any) -> Any:
        m = T.nn.Linear(2, 2)
        with T.no_grad():
            m.weight.fill_(1)
            m.bias.fill_(0)
        order: list = []
        handles = [
            m.register_forward_pre_hook(lambda module, args: order.append("pre 1")),
            m.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
            m.register_forward_pre_hook(lambda module, args: args[0] + 1),
            m.register_forward_pre_hook(lambda module, args: order.append("pre 0"), prepend=True),
            m.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs), with_kwargs=True),
            m.register_forward_hook(lambda module, args, out: order.append("post 1")),
            m.register_forward_hook(lambda module, args, out: out * 10),
            m.register_forward_hook(
                lambda module, args, kwargs, out: order.append(kwargs), with_kwargs=True, prepend=True
            ),
        ]
        hooked = m(T.ones(1, 2))
        for handle in handles:
            handle.remove()
        with m.register_forward_hook(lambda module, args, out: out * 0):
            inside = m(T.ones(1, 2))
        m.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
        return hooked, inside, order, failure(lambda: m(T.ones(1, 2)))

    same(run)


def test_hooks_with_kwargs() -> None:
    def run(T: Any) -> Any:
        m = T.nn.Linear(2, 2)
        seen: list = []
        m.register_forward_pre_hook(
            lambda module, args, kwargs: ((), {"input": kwargs["input"] * 0}), with_kwargs=True
        )
        m.register_forward_hook(lambda module, args, kwargs, out: seen.append(list(kwargs)), with_kwargs=True)
        T.nn.init.zeros_(m.bias)
        return m(input=T.ones(1, 2)), seen

    same(run)


def test_hooks_that_are_always_called() -> None:
    def run(T: Any) -> Any:
        class Failing(T.nn.Module):
            def forward(self, x: Any) -> Any:
                raise ValueError("forward")

        seen: list = []
        m = Failing()
        m.register_forward_hook(lambda module, args, out: seen.append("never"))
        m.register_forward_hook(lambda module, args, out: seen.append(("always", out)), always_call=True)
        first = failure(lambda: m(1))

        def also_fails(module: Any, args: Any, out: Any) -> None:
            raise RuntimeError("hook")

        m.register_forward_hook(also_fails, always_call=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            second = failure(lambda: m(1))
        return first, second, seen, len(caught)

    same(run)


def hooked_backward(T: Any, module: Any, args: tuple, **hooks: Any) -> Any:
    seen: list = []

    def record(name: str, change: Any) -> Any:
        def hook(module: Any, *grads: Any) -> Any:
            seen.append((name, grads))
            return None if change is None else change(*grads)

        return hook

    for name, change in hooks.items():
        register = (
            module.register_full_backward_pre_hook if "pre" in name else module.register_full_backward_hook
        )
        register(record(name, change))
    out = module(*args)
    total = sum(part.sum() for part in out) if isinstance(out, tuple) else out.sum()
    total.backward()
    return seen, [parameter.grad for parameter in module.parameters()]


def test_full_backward_hooks() -> None:
    def run(T: Any) -> Any:
        results = []
        for change in (None, lambda grad_in, grad_out: (grad_in[0] * 3,)):
            T.manual_seed(0)
            x = T.ones(2, 3, requires_grad=True)
            m = T.nn.Linear(3, 2)
            results.append((hooked_backward(T, m, (x * 1,), hook=change), x.grad))
            T.manual_seed(0)
            results.append(hooked_backward(T, T.nn.Linear(3, 2), (T.ones(2, 3),), hook=None))
        T.manual_seed(0)
        x = T.ones(2, 3, requires_grad=True)
        results.append(
            (
                hooked_backward(T, T.nn.Linear(3, 2), (x,), pre=lambda grads: (grads[0] * 2,), hook=None),
                x.grad,
            )
        )
        return results

    same(run)


def test_backward_hooks_of_several_inputs() -> None:
    def run(T: Any) -> Any:
        class Two(T.nn.Module):
            def forward(self, a: Any, flag: bool, b: Any, c: Any) -> Any:
                return a * b, (a + c if flag else a), c.detach()

        a, b = T.ones(2, requires_grad=True), T.full((2,), 3.0, requires_grad=True)
        c = T.full((2,), 5.0)
        seen, _ = hooked_backward(T, Two(), (a, True, b, c), pre=None, hook=None)
        return seen, a.grad, b.grad

    same(run)


def test_backward_hook_errors() -> None:
    def run(T: Any) -> Any:
        def attempt(**hooks: Any) -> Any:
            x = T.ones(2, 3, requires_grad=True)
            return failure(lambda: hooked_backward(T, T.nn.Linear(3, 2), (x,), **hooks))

        def no_input() -> Any:
            return hooked_backward(T, T.nn.Linear(3, 2), (T.ones(2, 3),), hook=lambda i, o: (o[0],))

        mixed = T.nn.Linear(1, 1)
        mixed.register_full_backward_hook(lambda *args: None)
        old = T.nn.Linear(1, 1)
        old.register_backward_hook(lambda *args: None)
        return (
            attempt(hook=lambda i, o: (o[0], o[0])),
            attempt(pre=lambda o: (o[0], o[0])),
            failure(no_input),
            failure(lambda: mixed.register_backward_hook(print)),
            failure(lambda: old.register_full_backward_hook(print)),
        )

    same(run)


def test_backward_hook_on_other_outputs_warns() -> None:
    class Listing(cg.nn.Module):
        def forward(self, x: cg.Tensor) -> list:
            return [x * 2]

    m = Listing()
    m.register_full_backward_hook(lambda *args: None)
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple of Tensors"):
        m(cg.ones(2, requires_grad=True))


def test_old_backward_hooks() -> None:
    def run(T: Any) -> Any:
        m = T.nn.Tanh()
        seen: list = []
        m.register_backward_hook(lambda module, grad_in, grad_out: seen.append((grad_in, grad_out)))
        x = T.ones(2, requires_grad=True)
        m(x).sum().backward()
        return seen, x.grad

    same(run)


def test_nested_backward_hooks_run_in_order() -> None:
    def run(T: Any) -> Any:
        m, order = net(T), []
        for name, module in m.named_modules():
            module.register_full_backward_hook(lambda module, i, o, name=name: order.append(name))
        m(T.ones(2, 3)).sum().backward()
        return order

    same(run)


def test_hooks_on_all_modules() -> None:
    def run(T: Any) -> Any:
        everywhere, order = T.nn.modules.module, []
        handles = [
            everywhere.register_module_forward_pre_hook(
                lambda m, args: order.append(("pre", type(m).__name__))
            ),
            everywhere.register_module_forward_hook(lambda m, args, out: order.append("post")),
            everywhere.register_module_full_backward_pre_hook(lambda m, grads: order.append("back pre")),
            everywhere.register_module_full_backward_hook(lambda m, i, o: order.append("back")),
            everywhere.register_module_parameter_registration_hook(lambda m, n, p: order.append(n)),
            everywhere.register_module_module_registration_hook(lambda m, n, s: order.append(n)),
            everywhere.register_module_buffer_registration_hook(lambda m, n, b: order.append(n)),
        ]
        m = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.BatchNorm1d(2))
        m(T.ones(3, 2)).sum().backward()
        for handle in handles:
            handle.remove()
        count = len(order)
        m(T.ones(3, 2)).sum().backward()
        T.nn.Linear(1, 1)
        return order, count == len(order)

    same(run)


def test_calls_without_hooks_take_the_short_way() -> None:
    m = cg.nn.Linear(2, 2)
    m.register_forward_hook(lambda module, args, out: None).remove()
    m(cg.ones(1, 2))
    assert not m._hooked


def test_deepcopied_hooks_belong_to_the_copy() -> None:
    def run(T: Any) -> Any:
        m = T.nn.Linear(2, 2)
        seen: list = []
        m.handle = m.register_forward_hook(lambda module, args, out: seen.append(1))
        other = copy.deepcopy(m)
        other.handle.remove()
        other(T.ones(1, 2))
        m(T.ones(1, 2))
        return len(seen)

    same(run)
