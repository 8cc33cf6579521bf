"""Compiled functions under a watch: the same is found, nothing else is, and they stay compiled."""

from __future__ import annotations

import shutil
from textwrap import dedent

import pytest

import cleargrad
from cleargrad.compile import capture
from cleargrad.compile.capture import Compiled
from cleargrad.doctor.session import Session
from tests.compile.world import runs
from tests.doctor.programs import ENGINES, PRELUDE, examine, found, library, marked_line

STEP = """
    @torch.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss
"""
CORRECT = {
    "a whole step": f"""{STEP}
    for _ in range(100):
        step(x, y)
    """,
    "cleared outside": """
    @torch.compile
    def step(x, y):
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        return loss
    for _ in range(100):
        optimizer.zero_grad()
        step(x, y)
    """,
    "cleared outside, by hand": """
    @torch.compile
    def step(x, y):
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        return loss
    for number in range(100):
        for p in model.parameters():
            p.grad = None
        step(x, y)
    """,
    "cleared without a trace": """
    @torch.compile
    def step(x, y):
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        return loss
    for number in range(12):
        for p in model.parameters():
            if p.grad is not None:
                p.grad.data.zero_()
        step(x, y)
    """,
    "micro-batches": """
    @torch.compile
    def add(x, y):
        loss = loss_of(model, x, y) / 2
        loss.backward()
        return loss
    for number in range(90):
        add(x, y)
        add(x, y)
        optimizer.step()
        optimizer.zero_grad()
    """,
    "loss scaling": """
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    @torch.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss
    for _ in range(20):
        step(x, y)
    """,
    "two optimizers, each with a step of its own": """
    other = nn.Linear(4, 1)
    second = torch.optim.Adam(other.parameters(), lr=0.01)
    @torch.compile
    def one(x, y):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
    @torch.compile
    def two(x, y):
        second.zero_grad()
        loss_of(other, x, y).backward()
        second.step()
    for _ in range(80):
        one(x, y)
        two(x, y)
    """,
    "validation in between": f"""{STEP}
    for _ in range(5):
        for _ in range(16):
            step(x, y)
        model.eval()
        with torch.no_grad():
            loss_of(model)
        model.train()
    """,
    "what eager programs do": """
    compiled = torch.compile(model)
    for _ in range(100):
        optimizer.zero_grad()
        loss_of(compiled).backward()
        optimizer.step()
    """,
}


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> list[Compiled]:
    """The functions that were compiled."""
    made: list[Compiled] = []
    monkeypatch.setattr(capture, "watchers", [*capture.watchers, made.append])
    return made


@pytest.mark.parametrize("name", CORRECT)
def test_correct_programs_are_left_alone_and_stay_compiled(name: str, functions: list[Compiled]) -> None:
    session = examine("cleargrad", CORRECT[name])
    assert found(session) == []
    assert functions and all(map(runs, functions))
    steps = max(optimizer.steps for optimizer in session.registry.optimizers)
    assert steps >= 12
    assert session.ledger.steps == steps


def test_every_step_of_a_program_counts() -> None:
    session = examine("cleargrad", CORRECT["a whole step"])
    assert session.ledger.steps == 100
    assert [record.steps for record in session.registry.optimizers] == [100]
    assert any(event.step > 10 for kept in session.story.statistics.values() for event in kept.kept)


NO_ZERO = """
    @torch.compile
    def step(x, y):
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()  #!
        return loss
    for _ in range(6):
        step(x, y)
"""
MISTAKES = {
    "no zero_grad": ("gradient-reused", NO_ZERO),
    "cleared after backward": (
        "gradient-discarded",
        """
        @torch.compile
        def step(x, y):
            loss_of(model, x, y).backward()
            optimizer.zero_grad()  #!
            optimizer.step()
        for _ in range(6):
            step(x, y)
        """,
    ),
    "cleared only at first": (
        "gradient-reused",
        """
        @torch.compile
        def step(x, y):
            loss_of(model, x, y).backward()
            optimizer.step()  #!
        for number in range(80):
            if number < 70:
                optimizer.zero_grad()
            step(x, y)
        """,
    ),
    "clipped after the step": (
        "clip-misplaced",
        """
        @torch.compile
        def step(x, y):
            optimizer.zero_grad()
            loss_of(model, x, y).backward()
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #!
        for _ in range(6):
            step(x, y)
        """,
    ),
    "an eager step after a long calm": (
        "gradient-reused",
        f"""{STEP}
    for _ in range(120):
        step(x, y)
    loss_of(model).backward()
    optimizer.step()  #!
    """,
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found_at_their_line(name: str, functions: list[Compiled]) -> None:
    rule, program = MISTAKES[name]
    session = examine("cleargrad", program)
    assert (rule, marked_line(program)) in found(session)
    assert functions and all(map(runs, functions))


def test_the_step_of_a_mistake_is_right_after_runs_that_were_only_counted() -> None:
    program = f"""{STEP}
    for _ in range(117):
        step(x, y)
    loss_of(model).backward()
    optimizer.step()
    """
    session = examine("cleargrad", program)
    (finding,) = session.findings
    assert (finding.rule, finding.step) == ("gradient-reused", 118)
    assert finding.facts["earlier_steps"] == [117]


def test_a_watch_that_begins_late_finds_the_same() -> None:
    space = library("cleargrad")
    exec(PRELUDE, space)
    exec(compile(dedent(NO_ZERO), "train.py", "exec"), space)
    space["optimizer"].zero_grad()  # who has filled what is there before a watch is not known
    ran = runs(space["step"])
    assert ran
    with Session(engine="cleargrad", search=True) as session:
        for _ in range(4):
            space["step"](space["x"], space["y"])
    assert [finding.rule for finding in session.findings] == ["gradient-reused"]
    ran = runs(space["step"])
    for _ in range(4):
        space["step"](space["x"], space["y"])
    assert runs(space["step"]) == ran + 4


def test_a_watched_run_computes_the_same() -> None:
    def weights(watched: bool) -> list:
        space = library("cleargrad")
        session = Session(engine="cleargrad")
        if watched:
            session.attach()
        exec(PRELUDE, space)
        exec(compile(dedent(STEP), "train.py", "exec"), space)
        for _ in range(100):
            space["step"](space["x"], space["y"])
        session.detach()
        return [parameter.detach().tolist() for parameter in space["model"].parameters()]

    assert weights(True) == weights(False)


BACKENDS = ["eager", *(["inductor"] if shutil.which("g++") else [])]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_models_that_pytorch_compiles(backend: str) -> None:
    program = f"""
    compiled = torch.compile(model, backend="{backend}")
    for number in range(12):
        if number < 8:
            optimizer.zero_grad()
        loss_of(compiled).backward()
        optimizer.step()  #!
    """
    session = examine("torch", program)
    assert found(session) == [("gradient-reused", marked_line(program))]
    assert [finding.step for finding in session.findings] == [9]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_steps_that_pytorch_compiles_raise_no_alarm() -> None:
    program = """
    @torch.compile(backend="eager")
    def forward(x, y):
        return loss_of(model, x, y)
    @torch.compile(backend="eager")
    def update():
        optimizer.step()
    for number in range(12):
        optimizer.zero_grad()
        forward(x, y).backward()
        update()
    """
    assert found(examine("torch", program)) == []
    from torch._dynamo.convert_frame import input_codes

    files = {code.co_filename for reference in input_codes.seen if (code := reference()) is not None}
    assert "train.py" in files and not any(
        "cleargrad" in file for file in files
    )  # the doctor is left to Python


@pytest.mark.parametrize("engine", ENGINES)
def test_nobody_listens_when_it_is_over(engine: str) -> None:
    examine(engine, "optimizer.zero_grad(); loss_of(model).backward(); optimizer.step()")
    assert cleargrad.core.watch.watch.observer is None
    assert cleargrad.core.watch.watch.onlookers == set()
