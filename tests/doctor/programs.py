"""Small training programs, run under the doctor on PyTorch and on cleargrad.

A program is text in which `torch`, `nn`, `F`, `x` and `y` are known; `#!` marks the line that a finding must name.
"""

from __future__ import annotations

import textwrap
import warnings
from typing import Any

from cleargrad.doctor.session import Session

ENGINES = ("torch", "cleargrad")
PRELUDE = """
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(6, 4), torch.randn(6, 1)
def loss_of(model, x=x, y=y):
    return ((model(x) - y) ** 2).mean()
"""


def library(engine: str) -> dict[str, Any]:
    if engine == "torch":
        import torch
        import torch.nn.functional as functional
        from torch.utils import data
    else:
        import cleargrad as torch
        import cleargrad.nn.functional as functional
        from cleargrad.utils import data
    torch.manual_seed(0)
    return {"torch": torch, "nn": torch.nn, "F": functional, "data": data, "__name__": "__main__"}


def examine(engine: str, program: str, prelude: str = PRELUDE, **options: Any) -> Session:
    """Runs a program under a watch; line 1 is the first line of the program after its dedenting."""
    session = Session(engine=engine, **options)
    space = library(engine)
    session.attach()
    failed = True
    try:
        exec(compile(prelude, "prelude.py", "exec"), space)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's own about programs that are wrong on purpose
            exec(compile(textwrap.dedent(program).strip("\n"), "train.py", "exec"), space)
        failed = False
    finally:
        session.detach(failed)
    assert session.failure is None, session.failure
    return session


def marked_line(program: str) -> int:
    lines = textwrap.dedent(program).strip("\n").split("\n")
    return next(number for number, line in enumerate(lines, 1) if "#!" in line)


def found(session: Session) -> list[tuple[str, int | None]]:
    """The rules and lines of all problems."""
    return [(finding.rule, finding.line) for finding in session.findings.problems]
