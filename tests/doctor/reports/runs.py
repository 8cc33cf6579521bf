"""Runs that the tests of reports look at: a training loop without zero_grad, a healthy one, a long one."""

from __future__ import annotations

import contextlib
import linecache
import runpy
from pathlib import Path

from cleargrad.doctor.session import Session

ENGINES = ("torch", "cleargrad")

BUG = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(8, 3), torch.randn(8, 1)
for step in range(5):
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
"""
BACKWARD_LINE, STEP_LINE = 10, 11

HEALTHY = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.01)
x, y = torch.randn(8, 3), torch.randn(8, 1)
for step in range({steps}):
    optimizer.zero_grad(set_to_none={to_none})
    for part in range({parts}):
        loss = ((model(x) - y) ** 2).mean() / {parts}
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""


def healthy(steps: int = 4, parts: int = 1, optimizer: str = "Adam", to_none: bool = True) -> str:
    return HEALTHY.format(steps=steps, parts=parts, optimizer=optimizer, to_none=to_none)


def watch_script(
    folder: Path, text: str, engine: str = "cleargrad", session: Session | None = None
) -> Session:
    """Runs a script from a folder under a watch."""
    if engine == "cleargrad":
        text = text.replace(
            "import torch\nfrom torch import nn", "import cleargrad as torch\nfrom cleargrad import nn"
        )
    (folder / "train.py").write_text(text)
    session = Session(engine=engine) if session is None else session
    linecache.clearcache()
    with contextlib.chdir(folder), session:
        runpy.run_path("train.py")
    assert session.failure is None, session.failure
    return session
