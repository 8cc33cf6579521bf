"""A watch changes nothing, leaves nothing behind, keeps nothing alive, and never takes the training down."""

from __future__ import annotations

import gc
import importlib
import weakref
from typing import Any

import pytest

from cleargrad import doctor
from cleargrad.doctor.events import Accumulate, Step, Zero
from cleargrad.doctor.findings import GradientError
from cleargrad.doctor.rules import RULES, Rule, load
from cleargrad.doctor.session import Session
from tests.doctor.programs import ENGINES, PRELUDE, examine, found, library, marked_line

TRAIN = """
import copy
twin = copy.deepcopy(model)
drop = nn.Dropout(0.3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
loader = data.DataLoader(data.TensorDataset(torch.randn(10, 4), torch.randn(10, 1)), batch_size=2, shuffle=True)
for epoch in range(2):
    for a, b in loader:
        optimizer.zero_grad()
        loss_of(model, drop(a), b).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    scheduler.step()
"""


def run(engine: str, program: str) -> dict[str, Any]:
    space = library(engine)
    exec(compile(PRELUDE, "prelude.py", "exec"), space)
    exec(compile(program, "train.py", "exec"), space)
    return space


def weights(space: dict[str, Any]) -> list:
    return [parameter.detach().tolist() for parameter in space["model"].parameters()]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_watched_run_computes_the_same(engine: str) -> None:
    plain = weights(run(engine, TRAIN))
    with Session(engine=engine) as session:
        watched = weights(run(engine, TRAIN))
    assert watched == plain
    assert session.ledger.steps == 10
    assert found(session) == []


def patched_things(engine: str) -> list[Any]:
    names = {
        "autograd": ["backward", "grad"],
        "nn.utils": ["clip_grad_norm_", "clip_grad_value_"],
    }
    found = [
        getattr(importlib.import_module(f"{engine}.{module}"), name)
        for module in names
        for name in names[module]
    ]
    root = importlib.import_module(engine)
    loader = importlib.import_module(f"{engine}.utils.data.dataloader")
    for kind in (root.nn.Module, root.nn.Parameter, root.Tensor, root.optim.Optimizer, root.amp.GradScaler,
                 root.optim.lr_scheduler.LRScheduler, root.optim.lr_scheduler.ReduceLROnPlateau,
                 loader.DataLoader, loader._BaseDataLoaderIter):  # fmt: skip
        found.append(
            {name: value for name, value in vars(kind).items() if callable(value) or name in ("data", "grad")}
        )
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_everything_is_put_back(engine: str) -> None:
    before = patched_things(engine)
    with Session(engine=engine):
        space = run(engine, "loss_of(model).backward()")
        assert patched_things(engine) != before
    assert patched_things(engine) == before
    for parameter in space["model"].parameters():
        assert not getattr(parameter, "_post_accumulate_grad_hooks", None)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_imported_under_another_name_is_heard(engine: str) -> None:
    space = library(engine)
    clip_by_norm = space["nn"].utils.clip_grad_norm_
    globals()["clip_under_another_name"] = clip_by_norm
    with Session(engine=engine):
        assert globals()["clip_under_another_name"] is not clip_by_norm
    assert globals().pop("clip_under_another_name") is clip_by_norm


@pytest.mark.eager
@pytest.mark.parametrize("engine", ENGINES)
def test_models_and_graphs_are_not_kept_alive(engine: str) -> None:
    with Session(engine=engine) as session:
        space = run(
            engine,
            "for _ in range(3):\n  optimizer.zero_grad(); loss = loss_of(model); loss.backward(); optimizer.step()",
        )
        model, loss = weakref.ref(space["model"]), weakref.ref(space["loss"])
        weight = weakref.ref(space["model"][0].weight)
        space.clear()
        gc.collect()
        assert model() is None and loss() is None and weight() is None
        assert session.failure is None


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_of_the_doctor_ends_the_watch_and_not_the_training(
    engine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    load()

    def wrong(event: Step, case: Any) -> None:
        raise ZeroDivisionError("a mistake in a rule")

    monkeypatch.setitem(RULES, "wrong", Rule("wrong", "error", (Step,), wrong))
    before = patched_things(engine)
    session = Session(engine=engine).attach()
    space = run(engine, TRAIN)
    assert isinstance(session.failure, ZeroDivisionError)
    assert patched_things(engine) == before
    session.detach()
    monkeypatch.undo()
    assert weights(space) == weights(run(engine, TRAIN))
    assert capsys.readouterr().err.count("an error of its own") == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_strict_raises_at_the_step(engine: str) -> None:
    program = """
        for i in range(4):
            loss_of(model).backward()
            optimizer.step()
        """
    with pytest.raises(GradientError, match=r"zero_grad\(\) is missing before train.py:2") as caught:
        examine(engine, program, strict=True)
    assert caught.value.finding.step == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rule_can_be_ignored(engine: str) -> None:
    program = """
        for i in range(4):
            loss_of(model).backward()
            optimizer.step()
        """
    assert found(examine(engine, program, ignore=["gradient-reused"])) == []


LATE = {
    "zero_grad left out after many steps": (
        ["gradient-reused"],
        """
        for i in range(100):
            if i < 90:
                optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()  #!
        """,
    ),
    "a second step after many": (
        ["gradient-reused"],
        """
        def step():
            optimizer.step()  #!
        for i in range(100):
            optimizer.zero_grad()
            loss_of(model).backward()
            step()
            if i == 90:
                step()
        """,
    ),
    "gradients cleared by hand after many steps": (
        [],
        """
        for i in range(100):
            if i < 80:
                optimizer.zero_grad()
            else:
                for p in model.parameters(): p.grad = None
            loss_of(model).backward()
            optimizer.step()
        """,
    ),
    "gradients zeroed through .data after many steps": (
        [],
        """
        for i in range(100):
            if i < 80:
                optimizer.zero_grad(set_to_none=False)
            else:
                for p in model.parameters(): p.grad.data.zero_()
            loss_of(model).backward()
            optimizer.step()
        """,
    ),
    "another part trains after many steps": (
        [],
        """
        for i in range(100):
            if i == 80:
                for p in model[0].parameters(): p.requires_grad = False
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
        """,
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", LATE)
def test_after_many_calm_steps(name: str, engine: str) -> None:
    rules, program = LATE[name]
    session = examine(engine, program)
    assert [rule for rule, _ in found(session)] == rules
    if rules:
        assert session.findings.problems[0].line == marked_line(program)
        assert session.findings.problems[0].step > 80


@pytest.mark.parametrize("engine", ENGINES)
def test_the_ledger_answers(engine: str) -> None:
    program = """
        for i in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
        """
    ledger = examine(engine, program).ledger
    row = ledger.table()[0]
    assert row["parameter"] == "0.weight"
    assert (row["received"], row["steps"], row["used"]) == (3, 3, 1)
    assert row["live"] == ["train.py:3 in step 3"]
    assert sum(isinstance(event, Accumulate) for event in ledger.history(0)) == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_is_bounded(engine: str) -> None:
    program = """
        outside = nn.Linear(4, 4)
        for i in range(900):
            optimizer.zero_grad()
            loss_of(model, outside(x)).backward()
            optimizer.step()
        """
    session = examine(engine, program, statistics=False)
    assert len(session.ledger.events) <= 4096
    assert max(len(bucket.live) for bucket in session.ledger.buckets) <= 64
    assert len(session.observer.tuples) < 20


@pytest.mark.parametrize("engine", ENGINES)
def test_watch_takes_what_exists_already(engine: str) -> None:
    space = run(engine, "")
    with doctor.watch(space["model"], space["optimizer"], warn=False) as watched:
        for _ in range(2):
            space["loss_of"](space["model"]).backward()
            space["optimizer"].step()
    assert watched.engine == engine
    assert [finding.rule for finding in watched.findings] == ["gradient-reused"]
    assert watched.findings.problems[0].parameters[0] == "0.weight"


def test_watch_warns_at_once() -> None:
    space = run("torch", "")
    with (
        pytest.warns(UserWarning, match="had been used before"),
        doctor.watch(space["model"], space["optimizer"]),
    ):
        for _ in range(2):
            space["loss_of"](space["model"]).backward()
            space["optimizer"].step()


def test_a_gradient_knows_its_history() -> None:
    space = run("cleargrad", "")
    with doctor.watch(space["model"], space["optimizer"], warn=False):
        space["loss_of"](space["model"]).backward()
        history = space["model"][0].weight.grad.history
    assert [event.step for event in history if isinstance(event, Accumulate)] == [1]


def test_compiled_models_are_watched() -> None:
    program = """
        compiled = torch.compile(model, backend="eager")
        for i in range(4):
            loss_of(compiled).backward()
            optimizer.step()  #!
        """
    assert found(examine("torch", program)) == [("gradient-reused", marked_line(program))]
    program = program.replace("loss_of", "optimizer.zero_grad(); loss_of", 1)
    assert found(examine("torch", program)) == []


def test_compiled_steps_of_cleargrad_stay_without_a_word() -> None:
    program = """
        @torch.compile
        def step():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            return loss
        for i in range(6):
            step()
        """
    assert found(examine("cleargrad", program)) == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clear", ("p.grad = None", "p.grad.zero_()", "p.grad.data.zero_()"))
def test_clearing_by_hand_has_a_line(clear: str, engine: str) -> None:
    session = examine(
        engine,
        f"""
        for _ in range(3):
            loss_of(model).backward()
            optimizer.step()
            for p in model.parameters():
                {clear}
        """,
    )
    cleared = {event.place.line for event in session.ledger.events if type(event) is Zero and event.place}
    assert cleared == {5} and not session.findings.problems


@pytest.mark.parametrize("engine", ENGINES)
def test_setting_gradients_is_only_watched_until_a_program_is_trusted(engine: str) -> None:
    program = (
        "for _ in range(80):\n  optimizer.zero_grad()\n  loss_of(model).backward()\n  optimizer.step()\n"
    )
    space = library(engine)
    parameter = space["nn"].Parameter
    session = Session(engine=engine).attach()
    assert "grad" in vars(parameter)
    exec(PRELUDE + program, space)
    assert "grad" not in vars(parameter)
    session.detach()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_infinite_slope_behind_a_mask_is_named(engine: str) -> None:
    session = examine(
        engine,
        """
        code = model(x)
        squares = (code - code.T) ** 2
        roots = torch.where(squares > 0, torch.sqrt(squares), torch.zeros_like(squares))
        roots.mean().backward()
        optimizer.step()
        """,
    )
    (finding,) = session.findings.problems
    assert finding.rule == "non-finite-gradient" and finding.facts["first_op"].startswith("sqrt")
    assert engine == "torch" or finding.facts["first_op"].endswith(":3")
