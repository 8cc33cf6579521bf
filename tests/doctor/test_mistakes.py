"""Each mistake is found, on both engines, by the right rule and at the right line; and nothing else is."""

from __future__ import annotations

import pytest

from tests.doctor.programs import ENGINES, examine, found, marked_line

LEDGER_RULES = {
    "gradient-reused",
    "gradient-discarded",
    "step-without-gradient",
    "window-leak",
    "window-dropped",
    "clip-misplaced",
    "clip-nothing",
    "scaler-misused",
}

MISTAKES = {
    "zero_grad is forgotten": (
        "gradient-reused",
        """
        for _ in range(4):
            loss_of(model).backward()
            optimizer.step()  #!
        """,
    ),
    "zero_grad once per epoch": (
        "gradient-reused",
        """
        for epoch in range(2):
            optimizer.zero_grad()
            for _ in range(3):
                loss_of(model).backward()
                optimizer.step()  #!
        """,
    ),
    "two steps on one backward": (
        "gradient-reused",
        """
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            optimizer.step()  #!
        """,
    ),
    "zero_grad of another optimizer": (
        "gradient-reused",
        """
        other = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1)
        for _ in range(3):
            other.zero_grad()
            loss_of(model).backward()
            optimizer.step()  #!
        """,
    ),
    "zero_grad without a call": (
        "gradient-reused",
        """
        for _ in range(3):
            optimizer.zero_grad
            loss_of(model).backward()
            optimizer.step()  #!
        """,
    ),
    "LBFGS without zero_grad in its closure": (
        "gradient-reused",
        """
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
        def closure():
            loss = loss_of(model)
            loss.backward()
            return loss
        for _ in range(3):
            optimizer.step(closure)  #!
        """,
    ),
    "backward, zero_grad, step": (
        "gradient-discarded",
        """
        for _ in range(3):
            loss_of(model).backward()
            optimizer.zero_grad()  #!
            optimizer.step()
        """,
    ),
    "backward, model.zero_grad to zeros, step": (
        "gradient-discarded",
        """
        for _ in range(3):
            loss_of(model).backward()
            model.zero_grad(set_to_none=False)  #!
            optimizer.step()
        """,
    ),
    "zero_grad in every micro-batch": (
        "gradient-discarded",
        """
        for i in range(12):
            optimizer.zero_grad()  #!
            (loss_of(model) / 4).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
        """,
    ),
    "zero_grad at the end of every micro-batch": (
        "gradient-discarded",
        """
        for i in range(16):
            (loss_of(model) / 4).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
            optimizer.zero_grad()  #!
        """,
    ),
    "backward is forgotten": (
        "step-without-gradient",
        """
        for _ in range(3):
            optimizer.zero_grad()
            loss = loss_of(model)
            optimizer.step()  #!
        """,
    ),
    "backward of another model": (
        "step-without-gradient",
        """
        other = nn.Linear(4, 1)
        for _ in range(3):
            optimizer.zero_grad()
            other.zero_grad()
            loss_of(other).backward()
            optimizer.step()  #!
        """,
    ),
    "the rest of an epoch leaks": (
        "window-leak",
        """
        loader = data.DataLoader(data.TensorDataset(torch.randn(14, 4), torch.randn(14, 1)), batch_size=2)
        for epoch in range(3):
            for i, (a, b) in enumerate(loader):
                (loss_of(model, a, b) / 3).backward()
                if (i + 1) % 3 == 0:
                    optimizer.step()  #!
                    optimizer.zero_grad()
        """,
    ),
    "the rest of an epoch is dropped": (
        "window-dropped",
        """
        loader = data.DataLoader(data.TensorDataset(torch.randn(14, 4), torch.randn(14, 1)), batch_size=2)
        for epoch in range(3):
            optimizer.zero_grad()  #!
            for i, (a, b) in enumerate(loader):
                (loss_of(model, a, b) / 3).backward()
                if (i + 1) % 3 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """,
    ),
    "clip after step": (
        "clip-misplaced",
        """
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #!
        """,
    ),
    "clip before backward": (
        "clip-misplaced",
        """
        for _ in range(3):
            optimizer.zero_grad()
            loss = loss_of(model)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #!
            loss.backward()
            optimizer.step()
        """,
    ),
    "clip before backward, zeros": (
        "clip-misplaced",
        """
        for _ in range(3):
            optimizer.zero_grad(set_to_none=False)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #!
            loss_of(model).backward()
            optimizer.step()
        """,
    ),
    "clip in every micro-batch": (
        "clip-misplaced",
        """
        for i in range(8):
            (loss_of(model) / 4).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #!
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """,
    ),
    "clip before unscale_": (
        "clip-misplaced",
        """
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of(model)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #!
            scaler.step(optimizer)
            scaler.update()
        """,
    ),
    "clip of an exhausted generator": (
        "clip-nothing",
        """
        parameters = model.parameters()
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)  #!
            optimizer.step()
        """,
    ),
    "clip of the wrong model": (
        "clip-nothing",
        """
        other = nn.Linear(4, 1)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(model).backward()
            nn.utils.clip_grad_norm_(other.parameters(), 1.0)  #!
            optimizer.step()
        """,
    ),
    "bare step on scaled gradients": (
        "scaler-misused",
        """
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of(model)).backward()
            optimizer.step()  #!
        """,
    ),
    "bare step beside scaler.step": (
        "scaler-misused",
        """
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(loss_of(model)).backward()
            scaler.step(optimizer)
            optimizer.step()  #!
            scaler.update()
        """,
    ),
    "scaler made in the loop": (
        "scaler-misused",
        """
        for _ in range(5):
            scaler = torch.amp.GradScaler("cpu")  #!
            optimizer.zero_grad()
            scaler.scale(loss_of(model)).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    ),
    "scaler.step on a loss that was not scaled": (
        "scaler-misused",
        """
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(3):
            optimizer.zero_grad()
            loss = loss_of(model)
            scaler.scale(loss)
            loss.backward()
            scaler.step(optimizer)  #!
            scaler.update()
        """,
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str, engine: str) -> None:
    rule, program = MISTAKES[name]
    said = [(other, line) for other, line in found(examine(engine, program)) if other in LEDGER_RULES]
    assert said == [(rule, marked_line(program))]


@pytest.mark.parametrize("engine", ENGINES)
def test_missing_update(engine: str) -> None:
    """The engine raises by itself; the doctor has said before why."""
    program = """
        scaler = torch.amp.GradScaler("cpu")
        try:
            for _ in range(2):
                optimizer.zero_grad()
                scaler.scale(loss_of(model)).backward()
                scaler.step(optimizer)  #!
        except RuntimeError:
            pass
        """
    assert found(examine(engine, program)) == [("scaler-misused", marked_line(program))]
