"""Copies, pickles and state dictionaries of modules, as in PyTorch."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict
from typing import Any

import pytest

import cleargrad as cg
from tests.nn.sample import net, text
from tests.oracle import failure, same


class Picklable(cg.nn.Module):
    """At module level, so that pickle finds it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = cg.nn.Linear(2, 2)
        self.tied = self.linear
        self.register_buffer("lost", cg.ones(1), persistent=False)

    def forward(self, x: cg.Tensor) -> cg.Tensor:
        return self.linear(x) + self.lost


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), copy.copy])
def test_copies(duplicate: Any) -> None:
    m = Picklable().eval()
    m(cg.ones(1, 2)).sum().backward()
    other = duplicate(m)
    assert other.linear is other.tied
    assert list(other.state_dict()) == list(m.state_dict())
    assert not other.training and (other.linear is m.linear) == (duplicate is copy.copy)
    assert cg.equal(other(cg.ones(1, 2)), m(cg.ones(1, 2)))
    assert isinstance(other.linear.weight, cg.nn.Parameter)


def test_old_pickles_are_completed() -> None:
    m = Picklable()
    state = {name: value for name, value in m.__dict__.items() if "hook" not in name}
    other = Picklable.__new__(Picklable)
    other.__setstate__(state)
    other.register_forward_hook(lambda module, args, out: out * 0)
    assert other(cg.ones(1, 2)).sum() == 0


def test_modules_are_freed_without_the_collector() -> None:
    gc.disable()
    try:
        m = net(cg)
        handle = m.register_forward_hook(lambda module, args, out: None)
        m(cg.ones(2, 3)).sum().backward()
        reference = weakref.ref(m)
        del m
        assert reference() is None
        handle.remove()
    finally:
        gc.enable()


# State dictionaries ----------------------------------------------------------------------------------------


def test_load_reports_in_pytorchs_words() -> None:
    def report(T: Any) -> Any:
        m = net(T)
        good = m.state_dict()
        wrong = OrderedDict(good)
        del wrong["norm.weight"], wrong["scale"]
        wrong["extra"] = T.ones(1)
        wrong["layers.9.weight"] = T.ones(1)
        wrong["first.weight"] = T.ones(2, 2)
        wrong["kept"] = 3
        lenient = OrderedDict(good)
        del lenient["kept"]
        lenient["extra"] = T.ones(1)
        loose = m.load_state_dict(lenient, strict=False)
        _, words = text(lambda: m.load_state_dict(wrong))
        words = words.removeprefix("load_state_dict: ").split("\n  at ")[0]
        kinds = "<class 'int'>" in words
        return (
            repr(m.load_state_dict(good)),
            loose.missing_keys,
            loose.unexpected_keys,
            kinds,
            words.split("\n"),
            failure(lambda: m.load_state_dict(3)),
            failure(lambda: m.load_state_dict(wrong, strict=False)),
        )

    same(report)


def test_load_copies_and_assigns() -> None:
    def run(T: Any) -> Any:
        m, other = net(T), net(T).double()
        for value in other.state_dict().values():
            value.add_(1)
        weight = m.first.weight
        m.load_state_dict(other.state_dict())
        copied = m.first.weight is weight, m.first.weight
        m.first.weight.requires_grad_(False)
        m.load_state_dict(other.state_dict(), assign=True)
        assigned = m.first.weight is weight, m.first.weight, m.norm.running_mean
        zero_d = T.nn.BatchNorm1d(1)
        state = zero_d.state_dict()
        state["num_batches_tracked"] = T.tensor([7])
        zero_d.load_state_dict(state)
        return copied, assigned, m.scale, zero_d.num_batches_tracked

    same(run)


def test_old_batch_norm_states() -> None:
    def run(T: Any) -> Any:
        m = T.nn.BatchNorm1d(2)
        state = {name: value for name, value in m.state_dict().items() if name != "num_batches_tracked"}
        instance = T.nn.InstanceNorm1d(2)
        old = {"running_mean": T.ones(2), "running_var": T.ones(2)}
        return repr(m.load_state_dict(state)), failure(lambda: instance.load_state_dict(old))

    same(run)


def test_extra_state() -> None:
    def run(T: Any) -> Any:
        class Counting(T.nn.Module):
            count = 3

            def get_extra_state(self) -> Any:
                return {"count": self.count}

            def set_extra_state(self, state: Any) -> None:
                self.count = state["count"]

        m = T.nn.Sequential(Counting())
        state = m.state_dict()
        m[0].count = 5
        result = m.load_state_dict(state)
        plain = T.nn.Sequential(T.nn.ReLU())
        return (
            list(state),
            m[0].count,
            repr(result),
            failure(lambda: m.load_state_dict({})),
            failure(lambda: plain.load_state_dict(state)),
            failure(lambda: plain.get_extra_state()),
        )

    same(run)


def test_state_hooks() -> None:
    def run(T: Any) -> Any:
        m = net(T)
        events: list = []

        def after(module: Any, state: Any, prefix: str, metadata: Any) -> None:
            events.append(("after", prefix, metadata))
            state["added"] = 1

        m.layers.register_state_dict_pre_hook(lambda module, prefix, keep: events.append(("before", prefix)))
        handle = m.layers.register_state_dict_post_hook(after)
        m.norm._register_state_dict_hook(lambda module, state, prefix, metadata: None)
        state = m.state_dict()
        names = list(state)
        handle.remove()
        again = list(m.state_dict())

        def rename(module: Any, state: Any, prefix: str, *rest: Any) -> None:
            events.append((module is m.first, prefix, len(rest)))
            state[prefix + "weight"] = state.pop(prefix + "old")

        def loaded(module: Any, keys: Any) -> None:
            events.append(list(keys.unexpected_keys))
            keys.unexpected_keys.clear()

        m.first.register_load_state_dict_pre_hook(rename)
        m.register_load_state_dict_post_hook(loaded)
        state["first.old"] = state.pop("first.weight")
        m.again = None
        state = OrderedDict((key, value) for key, value in state.items() if not key.startswith("again"))
        return names, again, repr(m.load_state_dict(state)), events

    same(run)


def test_post_hooks_must_return_nothing() -> None:
    def run(T: Any) -> Any:
        m, other = net(T), net(T)
        m.register_state_dict_post_hook(lambda *args: {})
        other.register_load_state_dict_post_hook(lambda *args: 3)
        state = other.state_dict()
        return failure(m.state_dict), failure(lambda: other.load_state_dict(state))

    same(run)


def test_positional_state_dict_warns() -> None:
    with pytest.warns(FutureWarning, match="Positional args"):
        assert list(cg.nn.Linear(1, 1).state_dict(None, "p.")) == ["p.weight", "p.bias"]
