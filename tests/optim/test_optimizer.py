"""What every optimizer shares: groups, hooks, gradients, checkpoints, copies, and the ways a rule runs."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.ops.record import Recorder, replay
from cleargrad.optim import rule
from cleargrad.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)
from tests.bits import same_bits
from tests.optim.both import close, here, parameters
from tests.oracle import failure, same


def leaf(*shape: int) -> Any:
    p = cg.ones(*shape).requires_grad_()
    p.grad = cg.ones(*shape)
    return p


class TestGroups:
    def test_options_come_from_the_group_or_the_defaults(self) -> None:
        p, q = leaf(2), leaf(3)
        optimizer = cg.optim.SGD([{"params": p}, {"params": iter([q]), "lr": 0.5}], lr=0.1, momentum=0.9)
        assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5]
        assert [group["momentum"] for group in optimizer.param_groups] == [0.9, 0.9]
        assert optimizer.param_groups[1]["params"][0] is q

    def test_generators_and_named_parameters(self) -> None:
        p, q = leaf(2), leaf(3)
        optimizer = cg.optim.Adam(pair for pair in [("weight", p), ("bias", q)])
        assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
        assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]

    def test_printing(self) -> None:
        def text(T: Any) -> str:
            params = [T.zeros(2, requires_grad=True), T.zeros(3, requires_grad=True)]
            return repr(T.optim.AdamW([{"params": params[:1]}, {"params": params[1:], "lr": 0.5}]))

        assert text(cg) == text(torch)

    @pytest.mark.parametrize(
        "call",
        [
            lambda T: T.optim.SGD([], lr=0.1),
            lambda T: T.optim.SGD([3], lr=0.1),
            lambda T: T.optim.SGD([{"params": {T.zeros(2)}}], lr=0.1),
            lambda T: T.optim.SGD([T.zeros(2, requires_grad=True) * 2], lr=0.1),
            lambda T: T.optim.SGD([T.zeros(2)], lr=0.1).add_param_group([T.zeros(2)]),
            lambda T: T.optim.SGD([T.zeros(2)], lr=-0.1),
            lambda T: T.optim.SGD([T.zeros(2)], nesterov=True),
            lambda T: T.optim.SGD([T.zeros(2)], fused=True, foreach=True),
            lambda T: T.optim.Adam([T.zeros(2)], fused=True, differentiable=True),
            lambda T: T.optim.Adam([T.zeros(2)], betas=(T.tensor([0.9, 0.8]), T.tensor(0.9))),
            lambda T: T.optim.LBFGS([{"params": [T.zeros(2)]}, {"params": [T.zeros(2)]}]),
            lambda T: T.optim.SparseAdam([T.zeros(2)], lr=0),
            lambda T: T.optim.SGD([T.zeros(2)]).load_state_dict({"state": {}, "param_groups": []}),
            lambda T: T.optim.SGD([T.zeros(2)]).load_state_dict(
                {"state": {}, "param_groups": [{"params": [0, 1]}]}
            ),
            lambda T: T.optim.Optimizer([T.zeros(2)], {}).step(),
        ],
    )
    def test_errors(self, call: Any) -> None:
        same(lambda T: failure(lambda: call(T)))

    def test_required_options(self) -> None:
        with pytest.raises(ValueError, match="required optimization parameter lr"):
            Optimizer([leaf(2)], {"lr": required})
        Optimizer([{"params": [leaf(2)], "lr": 3}], {"lr": required})

    def test_an_intermediate_that_retains_its_gradient(self) -> None:
        x = (leaf(2) * 2).requires_grad_()
        x.retain_grad()
        x.sum().backward()
        cg.optim.SGD([x], lr=0.5).step()
        assert x.tolist() == [1.5, 1.5]


class TestGradients:
    def test_none_skips_and_zero_steps(self) -> None:
        """With None a parameter is left alone; with zeros its weight decay and momentum go on."""

        def run(T: Any, set_to_none: bool) -> list:
            p = T.ones(2, requires_grad=True)
            optimizer = T.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.1)
            p.grad = T.ones(2)
            optimizer.step()
            optimizer.zero_grad(set_to_none)
            optimizer.step()
            return [p.detach(), p.grad]

        for set_to_none in (True, False):
            same(lambda T, flag=set_to_none: run(T, flag))

    def test_zero_grad_keeps_the_tensor_and_cuts_its_history(self) -> None:
        p = leaf(2)
        grad = p.grad = cg.ones(2, requires_grad=True) * 3
        optimizer = cg.optim.SGD([p])
        optimizer.zero_grad(set_to_none=False)
        assert p.grad is grad and grad.grad_fn is None and not grad.requires_grad
        assert grad.tolist() == [0, 0]

    def test_zero_grad_of_other_parameters(self) -> None:
        p, q = leaf(2), leaf(2)
        cg.optim.SGD([p]).zero_grad()
        assert p.grad is None and q.grad is not None

    def test_closure_runs_with_gradients(self) -> None:
        p = leaf(2)
        optimizer = cg.optim.SGD([p], lr=0.1)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (p**2).sum()
            loss.backward()
            return loss

        with cg.no_grad():
            assert optimizer.step(closure).item() == 2
        assert p.tolist() == pytest.approx([0.8, 0.8])
        assert cg.is_grad_enabled()


class TestHooks:
    def test_order(self) -> None:
        seen: list = []
        optimizer = cg.optim.SGD([leaf(2)])
        handles = [
            optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("own before")),
            register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("every before")),
            optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("own after")),
            register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("every after")),
        ]
        optimizer.step()
        assert seen == ["every before", "own before", "own after", "every after"]
        for handle in handles:
            handle.remove()
        optimizer.step()
        assert len(seen) == 4

    def test_pre_hook_changes_arguments(self) -> None:
        optimizer = cg.optim.SGD([leaf(2)])
        optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 7), {}))
        assert optimizer.step() == 7
        optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
        with pytest.raises(RuntimeError, match="new_args"):
            optimizer.step()

    def test_once_for_a_step_that_calls_its_parent(self) -> None:
        class Twice(cg.optim.SGD):
            def step(self, closure: Any = None) -> Any:
                super().step(closure)
                return super().step(closure)

        seen: list = []
        p = leaf(2)
        optimizer = Twice([p], lr=0.25)
        optimizer.register_step_post_hook(lambda *_: seen.append(1))
        optimizer.step()
        assert seen == [1] and p.tolist() == [0.5, 0.5]

    def test_state_dict_hooks(self) -> None:
        seen: list = []
        optimizer = cg.optim.SGD([leaf(2)])
        optimizer.register_state_dict_pre_hook(lambda o: seen.append("before"))
        optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
        optimizer.register_state_dict_post_hook(lambda o, state: seen.append(list(state)), prepend=True)
        assert optimizer.state_dict()["more"] == 1
        assert seen == ["before", ["state", "param_groups"]]
        optimizer.register_load_state_dict_pre_hook(lambda o, state: state["inner"])
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
        given = cg.optim.SGD([leaf(2)], lr=0.75).state_dict()
        optimizer.load_state_dict({"inner": given})
        assert optimizer.param_groups[0]["lr"] == 0.75 and seen[-1] == "loaded"


class TestCheckpoints:
    def test_old_checkpoints(self) -> None:
        """Numbers become tensors, and options that did not exist get their defaults."""
        state = {
            "state": {0: {"step": 3, "exp_avg": cg.ones(2), "exp_avg_sq": cg.ones(2)}},
            "param_groups": [
                {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0, "params": [0]}
            ],
        }
        p = leaf(2)
        optimizer = cg.optim.Adam([p])
        optimizer.load_state_dict(state)
        optimizer.step()
        assert optimizer.state[p]["step"].item() == 4 and optimizer.param_groups[0]["amsgrad"] is False

    def test_dtypes_after_loading(self) -> None:
        """Moments take the parameter's dtype, the step count keeps its own, as in PyTorch."""

        def kinds(T: Any, step: Any) -> dict:
            p = T.zeros(2, dtype=T.bfloat16, requires_grad=True)
            kept = {"step": T.tensor(3.0, dtype=step), "exp_avg": T.ones(2), "exp_avg_sq": T.ones(2).double()}
            optimizer = T.optim.Adam([p])
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": {0: kept}, "param_groups": groups})
            return {key: str(value.dtype) for key, value in optimizer.state[p].items()}

        assert kinds(cg, cg.float64) == kinds(torch, torch.float64)

    def test_loading_does_not_share_groups(self) -> None:
        optimizer, other = cg.optim.SGD([leaf(2)], lr=0.5), cg.optim.SGD([leaf(2)])
        state = optimizer.state_dict()
        other.load_state_dict(state)
        other.param_groups[0]["lr"] = 3
        assert state["param_groups"][0]["lr"] == 0.5

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
    def test_copies(self, copied: Any) -> None:
        p = leaf(3)
        optimizer = cg.optim.Adam([p], lr=0.1)
        optimizer.step()
        twin = copied(optimizer)
        q = twin.param_groups[0]["params"][0]
        q.grad = cg.ones(3)
        optimizer.step()
        twin.step()
        assert q is not p and q.tolist() == p.tolist()

    def test_state_before_the_first_step(self) -> None:
        def states(T: Any) -> dict:
            make = {name: getattr(T.optim, name) for name in ("SGD", "Adam", "Adagrad")}
            return {
                name: [list(kept) for kept in kind([T.zeros(2, requires_grad=True)]).state.values()]
                for name, kind in make.items()
            }

        assert states(cg) == states(torch)

    def test_sgd_without_momentum_keeps_no_state(self) -> None:
        optimizer = cg.optim.SGD([leaf(2)])
        optimizer.step()
        assert optimizer.state_dict()["state"] == {}


RULES = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "Adagrad": {},
    "Adadelta": {},
    "RMSprop": {"centered": True, "momentum": 0.5},
    "Rprop": {},
    "ASGD": {},
}


class TestWaysToRun:
    @pytest.mark.parametrize("name", RULES)
    def test_blocks_change_nothing(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A large parameter is updated block by block, also with a gradient in another memory order."""

        def run() -> Any:
            generator = np.random.default_rng(0)
            p = cg.from_numpy(generator.standard_normal((37, 11), np.float32)).requires_grad_()
            optimizer = getattr(cg.optim, name)([p], **RULES[name])
            for _ in range(8):
                p.grad = cg.from_numpy(generator.standard_normal((11, 37), np.float32)).T
                optimizer.step()
            return p.tolist(), optimizer.state_dict()["state"][0]

        whole, state = run()
        monkeypatch.setattr(rule, "BLOCK", 25)
        blocked, blocked_state = run()
        assert blocked == whole
        assert {k: v.tolist() for k, v in blocked_state.items()} == {k: v.tolist() for k, v in state.items()}

    def test_blocks_are_seen_by_autograd(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rule, "BLOCK", 4)
        p = leaf(5, 4)
        loss = (p * p).sum()
        version = p._version
        cg.optim.SGD([p], lr=0.1).step()
        assert p._version > version
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            loss.backward()

    @pytest.mark.parametrize("name", RULES)
    def test_flags_do_not_change_numbers(self, name: str) -> None:
        results = []
        for flag in ({}, {"foreach": True}, {"foreach": False}):
            p = leaf(3)
            optimizer = getattr(cg.optim, name)([p], **RULES[name], **flag)
            optimizer.step()
            results.append(p.tolist())
        assert results[0] == results[1] == results[2]

    @pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
    def test_fused(self, name: str) -> None:
        p, q = leaf(3), leaf(3)
        getattr(cg.optim, name)([p], fused=True).step()
        getattr(cg.optim, name)([q]).step()
        assert p.tolist() == q.tolist()

    @pytest.mark.parametrize("name", ["Adam", "RMSprop", "ASGD"])
    def test_capturable_needs_an_accelerator(self, name: str) -> None:
        def step(T: Any) -> Any:
            p = T.ones(3, requires_grad=True)
            p.grad = T.ones(3)
            return failure(lambda: getattr(T.optim, name)([p], capturable=True).step())

        same(step)

    def test_betas_and_lr_as_tensors(self) -> None:
        def run(T: Any) -> list:
            p = T.ones(3, requires_grad=True)
            betas = (T.tensor([0.8]), T.tensor(0.9))
            optimizer = T.optim.Adam([p], lr=T.tensor([0.1]), betas=betas)
            for _ in range(3):
                p.grad = T.arange(3.0) - 1
                optimizer.step()
            return [p.detach()]

        same(run)

    @pytest.mark.parametrize("name", RULES)
    def test_differentiable(self, name: str) -> None:
        """Gradients flow through a step, from the parameter and from the gradient."""
        theirs, ours = parameters(5, (4,), (4,), dtype=torch.float64)

        def gradients(T: Any, start: Any, grad: Any) -> list:
            p = start.clone()
            optimizer = getattr(T.optim, name)([p], **RULES[name], differentiable=True)
            p.grad = grad * 2
            optimizer.step()
            (p * p).sum().backward()
            return [start.grad, grad.grad if grad.grad is not None else T.zeros(4, dtype=T.float64)]

        close(gradients(cg, *ours), gradients(torch, *theirs), rtol=1e-6)

    @pytest.mark.parametrize("name", [n for n in RULES if n not in ("SGD", "Rprop")])
    def test_differentiable_over_several_steps(self, name: str) -> None:
        """Nothing that the graph has saved is overwritten, and every step has its part in the gradient."""
        _, ours = parameters(5, (3,), (3,), dtype=torch.float64)

        def train(start: Any, grad: Any) -> Any:
            p = start.clone()
            optimizer = getattr(cg.optim, name)([p], **RULES[name], differentiable=True)
            for scale in (1.0, 0.5, 2.0):
                p.grad = grad * scale + 0.1 * p
                optimizer.step()
            return p

        assert cg.autograd.gradcheck(train, ours, atol=1e-4, rtol=1e-3)

    def test_differentiable_hyperparameters(self) -> None:
        def gradients(T: Any) -> list:
            lr = T.tensor(0.1, requires_grad=True)
            decay = T.tensor(0.3, requires_grad=True)
            p = T.ones(3, requires_grad=True).clone()
            optimizer = T.optim.SGD([p], lr=lr, weight_decay=decay, differentiable=True)
            p.grad = T.arange(3.0)
            optimizer.step()
            (p**2).sum().backward()
            return [lr.grad, decay.grad]

        same(gradients)

    def test_half_precision(self) -> None:
        theirs, ours = parameters(7, (6,))
        halves = [p.detach().bfloat16().requires_grad_() for p in theirs]
        mine = [q.detach().bfloat16().requires_grad_() for q in ours]
        their, own = torch.optim.Adam(halves, lr=0.1), cg.optim.Adam(mine, lr=0.1)
        for step in range(5):
            torch.manual_seed(step)
            halves[0].grad = torch.randn(6).bfloat16()
            mine[0].grad = here(halves[0].grad.float()).bfloat16()
            their.step()
            own.step()
        close(mine[0].float(), halves[0].float(), rtol=2e-2, atol=1e-2)

    def test_float64_default(self) -> None:
        cg.set_default_dtype(cg.float64)
        try:
            p = leaf(2)
            optimizer = cg.optim.Adam([p])
            optimizer.step()
            assert optimizer.state[p]["step"].dtype == cg.float64
        finally:
            cg.set_default_dtype(cg.float32)


@pytest.mark.parametrize("name", [n for n in RULES if n not in ("RAdam", "ASGD")])
def test_steps_can_be_recorded(name: str) -> None:
    """A recorder sees a step as a graph in which the step count and the moments are values."""

    def begin() -> tuple:
        generator = np.random.default_rng(0)
        p = cg.from_numpy(generator.standard_normal((4, 3), np.float32)).requires_grad_()
        optimizer = getattr(cg.optim, name)([p], **RULES[name])
        for _ in range(3):
            optimizer.step()
            p.grad = cg.from_numpy(generator.standard_normal((4, 3), np.float32))
        return p, optimizer

    p, optimizer = begin()
    q, other = begin()
    with Recorder() as recorder:
        other.step()
        graph = recorder.finish([])
    for _ in range(2):
        optimizer.step()
        replay(graph, [])
        same_bits(q, p)


def test_an_optimizer_of_ones_own() -> None:
    """PyTorch's pattern for writing an optimizer."""

    class Sign(Optimizer):
        def __init__(self, params: Any, lr: float = 0.1):
            super().__init__(params, {"lr": lr})

        @cg.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    state["count"] = state.get("count", 0) + 1
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    p = leaf(2)
    optimizer = Sign([p], lr=0.5)
    seen: list = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(1))
    optimizer.step()
    assert p.tolist() == [0.5, 0.5] and optimizer.state[p]["count"] == 1 and seen == [1]


def test_sparse_adam_refuses_dense_gradients() -> None:
    optimizer = cg.optim.SparseAdam([leaf(2)])
    with pytest.raises(RuntimeError, match="dense gradients"):
        optimizer.step()


@pytest.mark.parametrize("T", [cg, torch])
def test_a_wrapper_that_skips_init(T: Any) -> None:
    """Published wrappers of optimizers make the hooks themselves and ask for them on `step`."""

    class Wrapper(T.optim.Optimizer):
        def __init__(self, inner: Any):
            self._optimizer_step_pre_hooks: dict = OrderedDict()
            self._optimizer_step_post_hooks: dict = OrderedDict()
            self._patch_step_function()
            self.inner, self.param_groups = inner, inner.param_groups

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

    weight = T.ones(1, requires_grad=True)
    weight.grad = T.ones(1)
    wrapper, seen = Wrapper(T.optim.SGD([weight], lr=0.5)), []
    wrapper.register_step_post_hook(lambda optimizer, args, kwargs: seen.append(weight.item()))
    wrapper.step()
    assert seen == [0.5]
