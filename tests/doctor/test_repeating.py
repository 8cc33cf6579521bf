"""Rounds that are only counted: whatever happens after them is judged as if every one had been told."""

from __future__ import annotations

import gc
import weakref
from textwrap import dedent

import pytest

from cleargrad.doctor.session import Session
from tests.doctor.programs import ENGINES, PRELUDE, examine, found, library

CLEAN = """
def train(rounds, clears=True, scale=1.0):
    for _ in range(rounds):
        if clears:
            optimizer.zero_grad()
        (loss_of(model) * scale).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
"""


def counted_while(engine: str, program: str) -> tuple[Session, int]:
    """A session, and how many rounds it had only counted when the program was over."""
    space = library(engine)
    with Session(engine=engine) as session:
        exec(PRELUDE, space)
        exec(compile(CLEAN + program, "train.py", "exec"), space)
        counted = session.observer.counted
    assert session.failure is None
    return session, counted


@pytest.mark.parametrize("engine", ENGINES)
def test_long_runs_are_counted_and_all_counts_are_right(engine: str) -> None:
    session, counted = counted_while(engine, "train(120)")
    assert counted > 20
    assert session.ledger.steps == 120
    assert [(row["received"], row["steps"]) for row in session.report()["parameters"]] == [(120, 120)] * 4
    assert found(session) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_report_in_the_middle_is_complete(engine: str) -> None:
    space = library(engine)
    with Session(engine=engine) as session:
        exec(PRELUDE + CLEAN + "train(115)", space)
        assert session.report()["steps"] == 115
        exec("train(5)", space)
        assert session.report()["steps"] == 120


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("calm", [97, 110, 131, 140])
def test_a_mistake_after_a_long_calm_is_found_in_its_step(engine: str, calm: int) -> None:
    session, _ = counted_while(engine, f"train({calm})\ntrain(3, clears=False)")
    (finding,) = session.findings
    assert (finding.rule, finding.step, finding.last_step) == ("gradient-reused", calm + 1, calm + 3)
    assert finding.facts["earlier_steps"] == [calm]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loss_that_is_no_number_is_found_in_its_step(engine: str) -> None:
    session, _ = counted_while(engine, "train(105)\ntrain(1, scale=float('nan'))")
    assert ("non-finite-gradient", 106) in [(finding.rule, finding.step) for finding in session.findings]


@pytest.mark.parametrize("engine", ENGINES)
def test_calls_that_stop_in_the_middle_of_a_round(engine: str) -> None:
    session, _ = counted_while(engine, "train(100)\noptimizer.zero_grad()\nloss_of(model).backward()")
    assert [bucket.used for bucket in session.ledger.buckets] == [0] * 4
    assert [len(bucket.fresh) for bucket in session.ledger.buckets] == [1] * 4


CALM = """
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train(100)
optimizer.zero_grad()
"""
RECEIVED = {
    "a layer that the last pass leaves out": ("loss_of(model[0]).backward()", [101, 101, 100, 100]),
    "a pass that fails half way": (
        """
        def fail(grad):
            raise ValueError
        hidden = model[0](x)
        hidden.register_hook(fail)
        try:
            loss_of(model[1:], hidden).backward()
        except ValueError:
            pass
        """,
        [100, 100, 101, 101],
    ),
    "a step of another optimizer's within the pass": (
        """
        other = torch.optim.SGD(model[0].parameters(), lr=0.0)
        hidden = model[0](x)
        hidden.register_hook(lambda grad: other.zero_grad())
        loss_of(model[1:], hidden).backward()
        """,
        [101] * 4,
    ),
    "a loss of several numbers": ("model(x).backward(torch.ones(6, 1))", [101] * 4),
    "a frozen layer": ("model[0].requires_grad_(False)\nloss_of(model).backward()", [100, 100, 101, 101]),
    "a layer that is frozen and thawed": (
        "model[0].requires_grad_(False)\nmodel[0].requires_grad_(True)\nloss_of(model).backward()",
        [101] * 4,
    ),
    "two passes": ("loss_of(model).backward()\nloss_of(model).backward()", [102] * 4),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", RECEIVED)
def test_passes_that_differ_after_a_long_calm_are_heard_right(engine: str, name: str) -> None:
    program, received = RECEIVED[name]
    session, _ = counted_while(engine, CALM + dedent(program))
    heard = [row["received"] for row in session.report()["parameters"][-4:]]
    assert heard == received


@pytest.mark.eager
@pytest.mark.parametrize("engine", ENGINES)
def test_rounds_that_are_counted_keep_no_model_alive(engine: str) -> None:
    space = library(engine)
    with Session(engine=engine) as session:
        exec(PRELUDE + CLEAN + "train(110)", space)
        assert session.observer.counted > 10
        parameter = weakref.ref(next(space["model"].parameters()))
        del space["model"], space["optimizer"]
        gc.collect()
        assert parameter() is None
    assert session.failure is None


UNUSUAL = {
    "a layer that is left out now and then": """
        optimizer = torch.optim.SGD([*model.parameters(), *(spare := nn.Linear(4, 1)).parameters()], lr=0.01)
        for number in range(130):
            optimizer.zero_grad()
            loss = loss_of(model)
            if number % 25 == 0:
                loss = loss + spare(x).mean()
            loss.backward()
            optimizer.step()
        """,
    "epochs, validation and a scheduler": """
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20)
        loader = data.DataLoader(data.TensorDataset(x, y), batch_size=2)
        for epoch in range(50):
            model.train()
            for a, b in loader:
                optimizer.zero_grad()
                loss_of(model, a, b).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                loss_of(model)
            scheduler.step()
        """,
    "two networks in turn": """
        other = nn.Linear(4, 1)
        second = torch.optim.Adam(other.parameters())
        for number in range(120):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            second.zero_grad()
            loss_of(other).backward()
            second.step()
        """,
    "accumulation over more and more": """
        for number in range(120):
            optimizer.zero_grad()
            for _ in range(1 + number // 90):
                (loss_of(model) / (1 + number // 90)).backward()
            optimizer.step()
        """,
    "clearing by hand from some step on": """
        for number in range(130):
            if number < 90:
                optimizer.zero_grad()
            else:
                for p in model.parameters():
                    p.grad = None
            loss_of(model).backward()
            optimizer.step()
        """,
    "a second backward through a checkpoint": """
        from importlib import import_module
        checkpoint = import_module(torch.__name__ + ".utils.checkpoint").checkpoint
        for number in range(100):
            optimizer.zero_grad()
            (checkpoint(model, x, use_reentrant=True).mean() + loss_of(model)).backward()
            optimizer.step()
        """,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_programs_stay_without_a_word(engine: str, name: str) -> None:
    session = examine(engine, UNUSUAL[name])
    assert found(session) == []
    assert session.ledger.steps >= 100
