"""Steps of many operands: whatever is another one than before is noticed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cleargrad as torch
from cleargrad.compile import beside
from cleargrad.compile.same import Same
from cleargrad.compile.script import waiting

STEPS = 24
CHANGES: dict[str, Callable[[Any, Any], Any]] = {}


def change(function: Callable[[Any, Any], Any]) -> Callable:
    CHANGES[function.__name__] = function
    return function


@change
def nothing(params, optimizer):
    pass


@change
def other_memory(params, optimizer):
    params[3].data = params[3].data * 2


@change
def other_memory_of_all(params, optimizer):
    for p in params:
        p.data = p.data.clone()


@change
def other_gradient(params, optimizer):
    params[2].grad = torch.full_like(params[2], 0.25)


@change
def written_gradient(params, optimizer):
    params[2].grad.mul_(3)


@change
def no_gradient(params, optimizer):
    params[1].grad = None


@change
def other_state(params, optimizer):
    optimizer.state[params[0]]["exp_avg"] = optimizer.state[params[0]]["exp_avg"] * 2


@change
def loaded(params, optimizer):
    optimizer.load_state_dict(optimizer.state_dict())


@change
def exchanged_states(params, optimizer):
    state = optimizer.state
    state[params[0]], state[params[1]] = state[params[1]], state[params[0]]


@change
def exchanged_parameters(params, optimizer):
    group = optimizer.param_groups[0]["params"]
    group[0], group[1] = group[1], group[0]


@change
def written(params, optimizer):
    with torch.no_grad():
        params[0].add_(1)


@change
def frozen(params, optimizer):
    params[4].requires_grad_(not params[4].requires_grad)


@change
def fewer(params, optimizer):
    group = optimizer.param_groups[0]["params"]
    if len(group) > 2:
        optimizer.state.pop(group.pop())
        params.pop()
    gc.collect()


@change
def seen_by_others(params, optimizer):
    """Somebody keeps an array of the memory, and reads it after the next step."""
    return params[0].detach().cpu().numpy()


@change
def rate(params, optimizer):
    optimizer.param_groups[0]["lr"] *= 0.5


def trained(device: str, name: str, wait: bool, clip: bool) -> list[bytes]:
    """The bits of all parameters after every step; between some of which something changes."""
    numbers = np.random.default_rng(0)
    start = [numbers.standard_normal((2, 3)).astype(np.float32) for _ in range(6)]
    params = [torch.tensor(x, device=device).requires_grad_() for x in start]
    for p in params:
        p.grad = torch.tensor(numbers.standard_normal((2, 3)).astype(np.float32), device=device)
    optimizer = torch.optim.Adam(params, lr=0.1)
    seen: list[Any] = []
    found = []
    switch = waiting() if wait else None
    try:
        for step in range(STEPS):
            if clip:
                torch.nn.utils.clip_grad_norm_(params, 0.5)
            optimizer.step()
            beside.wait()
            if step % 6 == 5:
                found.append(b"".join(p.detach().cpu().numpy().tobytes() for p in params))
                seen.append(CHANGES[name](params, optimizer))
            found += [x.tobytes() for x in seen if x is not None]
    finally:
        if switch is not None:
            switch.__exit__(None)
    return found


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_noticed(name, clip):
    assert trained("cpu", name, True, clip) == trained("cpu", name, False, clip)


def test_the_same_tensors_are_known(monkeypatch):
    taken = []
    takes = Same.takes
    monkeypatch.setattr(Same, "takes", lambda *given: taken.append(takes(*given)) or taken[-1])
    trained("cpu", "nothing", True, False)
    assert taken.count(True) > STEPS // 2


def test_no_tensor_is_kept_alive():
    params = [torch.ones(4).requires_grad_() for _ in range(6)]
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    switch = waiting()
    try:
        for p in params:
            p.grad = torch.ones(4)
        for _ in range(6):
            optimizer.step()
            beside.wait()
        references = [weakref.ref(p) for p in params]
        del params, optimizer, p
        gc.collect()
        assert all(each() is None for each in references)
    finally:
        switch.__exit__(None)
