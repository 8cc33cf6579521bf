"""Findings in a notebook or at a prompt read as the report does."""

from __future__ import annotations

import cleargrad as cg
from cleargrad import doctor


def test_findings_read_as_the_report() -> None:
    model = cg.nn.Linear(2, 1)
    optimizer = cg.optim.SGD(model.parameters(), lr=0.1)
    with doctor.watch(model, optimizer, warn=False) as watched:
        assert repr(watched.findings) == "no findings"
        for _ in range(3):
            model(cg.ones(1, 2)).sum().backward()
            optimizer.step()
    text = repr(watched.findings)
    assert text.startswith("error  gradient-reused") and "fix: " in text and "> " in text

    class Printer:
        def text(self, text: str) -> None:
            self.printed = text

    printer = Printer()
    watched.findings.problems[0]._repr_pretty_(printer, cycle=False)
    assert printer.printed in text
