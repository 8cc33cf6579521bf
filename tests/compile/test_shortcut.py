"""Calls of compiled functions without Python: when they are made, what they leave, what is in their way."""

from __future__ import annotations

import gc
import itertools
import linecache
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import cleargrad as torch
from cleargrad import nn
from cleargrad.compile.report import report
from cleargrad.compile.watched import watching
from tests.bits import same_bits

MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(6, 3),
    "norms and dropout": lambda: nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 3)
    ),
    "attention": lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.LSTM(3, 3, batch_first=True), Last()),
}
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.05),
}


class Last(nn.Module):
    def forward(self, x: Any) -> Any:
        return x[0][:, -1]


class Training:
    """A model, and a step that trains it."""

    def __init__(self, model: str, optimizer: str, parts: int = 1, schedule: bool = False) -> None:
        torch.manual_seed(0)
        self.model = MODELS[model]()
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9) if schedule else None
        model_, optimizer_, cross_entropy = self.model, self.optimizer, nn.functional.cross_entropy

        def step(x: Any, y: Any) -> Any:
            optimizer_.zero_grad()
            total = 0.0
            for k in range(parts):
                loss = cross_entropy(model_(x[k]), y[k]) / parts
                loss.backward()
                total = total + loss.detach()
            norm = nn.utils.clip_grad_norm_(model_.parameters(), 1.0)
            optimizer_.step()
            return {"loss": total, "norm": norm}

        self.step, self.parts = step, parts

    def run(self, step: Callable, count: int = 12) -> list:
        torch.manual_seed(1)
        found = []
        for _ in range(count):
            x, y = torch.randn(self.parts, 4, 6), torch.randint(3, (self.parts, 4))
            result = step(x, y)
            found.append((result["loss"].item(), result["norm"].item()))
            if self.scheduler is not None:
                self.scheduler.step()
        self.random = torch.rand(2)
        return found

    def state(self) -> list:
        parameters = list(self.model.parameters())
        kept = [value for p in parameters for value in self.optimizer.state[p].values()]
        return [*self.model.state_dict().values(), *kept, *[p.grad for p in parameters], self.random]

    def versions(self) -> list:
        parameters = list(self.model.parameters())
        tensors = [*parameters, *self.model.buffers(), *[p.grad for p in parameters]]
        return [each._version for each in tensors]


def runs_without_python(function: Any) -> int:
    return sum(shortcut.runs for shortcut in function.shortcuts)


def same_state(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        same_bits(one, other)
    elif isinstance(one, (list, tuple)):
        for parts in zip(one, other, strict=True):
            same_state(*parts)
    else:
        assert one == other


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("parts", "schedule"), [(1, False), (3, True)])
def test_training_without_python(model: str, optimizer: str, parts: int, schedule: bool) -> None:
    plain, with_python, without = (Training(model, optimizer, parts, schedule) for _ in range(3))
    run, compiled = torch.compile(with_python.step), torch.compile(without.step)
    run.attempts = 0
    assert plain.run(plain.step) == with_python.run(run) == without.run(compiled)
    assert compiled.unproven is None and runs_without_python(compiled) >= 6
    same_state(plain.state(), without.state())
    assert with_python.versions() == without.versions()


@pytest.mark.parametrize("model", ["linear", "norms and dropout"])
def test_a_change_in_between(model: str) -> None:
    """Python runs again where it would decide otherwise, and a new proof is made."""
    sides = [Training(model, "sgd") for _ in range(2)]
    compiled = torch.compile(sides[1].step)
    found = []
    for side, step in zip(sides, (sides[0].step, compiled), strict=True):
        losses = side.run(step)
        side.optimizer.param_groups[0]["lr"] = 0.01  # an input of the program
        losses += side.run(step, 3)
        before = runs_without_python(compiled)
        side.model.eval()
        losses += side.run(step, 8)
        side.optimizer.param_groups[0]["momentum"] = 0.0  # another rule
        found.append((losses, side.run(step, 8), before))
    assert found[0][:2] == found[1][:2] and found[1][2] >= 9
    assert runs_without_python(compiled) > found[1][2]


def test_inference_under_no_grad() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    compiled = torch.compile(lambda x: model(x)[:, 1:])
    for k in range(8):
        x = torch.full((2, 4), float(k))
        with torch.no_grad():
            assert torch.equal(compiled(x), model(x)[:, 1:])
    assert runs_without_python(compiled) >= 3
    assert compiled(x).requires_grad  # with gradients, Python runs


def test_nothing_is_kept_alive() -> None:
    held = {"model": nn.Linear(3, 3)}
    compiled = torch.compile(lambda x: held["model"](x).sum())
    with torch.no_grad():
        for _ in range(6):
            compiled(torch.ones(2, 3))
        assert runs_without_python(compiled)
        gone = weakref.ref(held["model"])
        held["model"] = nn.Linear(3, 3)
        gc.collect()
        assert gone() is None
        assert torch.equal(compiled(torch.ones(2, 3)), held["model"](torch.ones(2, 3)).sum())


REASONS: list[tuple[str, str]] = [
    ("    log.append(1)\n    return x * 2", "append of a list is called"),
    ("    holder.n += 1\n    return x * 2", "an object is changed"),
    ("    return x * next(numbers)", "next is called"),
    ("    return x * 2 if x.sum() > 0 else x", "Python decides by a Tensor"),
    ("    return x * array", "a ndarray is computed with"),
    (
        "    try:\n        return x * 2\n    finally:\n        pass",
        "there is a statement that is not looked into (try)",
    ),
    ("    return torch.zeros(int(x[0]))", "a tensor is used as a number"),
    ("    return torch.nn.functional.one_hot(whole).sum() + x", "a value is looked at"),
]


def function_of(body: str, **names: Any) -> Any:
    """A function of a text that has a place of its own, as in a notebook."""
    text, file = f"def f(x):\n{body}\n", f"<test {body}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names["f"]


@pytest.mark.parametrize(("body", "reason"), REASONS, ids=[reason for _, reason in REASONS])
def test_why_python_runs(body: str, reason: str) -> None:
    import numpy as np

    holder = type("Holder", (), {"n": 0})()
    names = {
        "torch": torch,
        "log": [],
        "holder": holder,
        "numbers": itertools.cycle([0.5]),
        "array": np.ones(2),
    }
    compiled = torch.compile(function_of(body, **names, whole=torch.tensor([0, 2])))
    with torch.no_grad():
        for _ in range(6):
            compiled(torch.ones(2))
    assert compiled.unproven is not None and compiled.unproven[0] == reason
    assert not runs_without_python(compiled)


def test_a_source_that_is_not_what_runs_proves_nothing() -> None:
    function = function_of("    return x * 2")
    file = function.__code__.co_filename
    text = "def f(x):\n    return x * 3\n"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    compiled = torch.compile(function)
    for _ in range(6):
        assert compiled(torch.ones(1)).item() == 2
    assert compiled.unproven[0] == "its source is not what runs"


def test_an_index_out_of_range() -> None:
    """The program steps back, and Python says which call it was."""
    table = torch.randn(4, 3)
    compiled = torch.compile(lambda i: nn.functional.embedding(i, table).sum())
    for _ in range(6):
        compiled(torch.tensor([0, 3]))
    assert runs_without_python(compiled)
    with pytest.raises(IndexError):
        compiled(torch.tensor([0, 4]))
    same_bits(compiled(torch.tensor([1, 1])), nn.functional.embedding(torch.tensor([1, 1]), table).sum())


def test_reports() -> None:
    log: list = []

    def counted(x: Any) -> Any:
        log.append(1)
        return x * 2

    with watching() as found:
        quiet, noisy = torch.compile(lambda x: x * 3), torch.compile(counted)
        for _ in range(8):
            quiet(torch.ones(2))
            noisy(torch.ones(2))
    assert found == [quiet, noisy]
    assert "4 of the calls without Python: all that it had read was as before" in report(quiet)
    text = report(noisy)
    assert "Python runs, for append of a list is called at " in text and "log.append(1)" in text
