"""Contributions that are used more than once. Every correct program uses each at most once, so this is exact.

Read next: rules/drop.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cleargrad.doctor.events import Backward, HandStep, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.ledger import Use
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.rules.scaling import is_second_step
from cleargrad.doctor.sentences import counted, listed, passes_by_line


@rule("gradient-reused", "error", on=(Step, HandStep))
def gradient_reused(event: Step | HandStep, case: Case) -> Iterator[Finding]:
    """A step used contributions that an earlier step had used."""
    use = case.ledger.use
    if use is None or not use.reused or (isinstance(event, Step) and is_second_step(event, case)):
        return
    passes = {backward.number: backward for found in use.reused.values() for backward in found}
    fresh = {backward.number: backward for number in use.reused for backward in use.fresh[number]}
    total, old = len(passes) + len(fresh), len(passes)
    earlier = sorted({step.step for number in use.reused for step in use.earlier[number]})
    message = (
        f"step {event.step} used gradients of {counted(total, 'backward call')}; "
        f"{old} of them ({passes_by_line(passes.values())}) had been used before"
    )
    yield case.finding(
        event,
        message,
        fix=missing_clear(event, list(fresh.values())),
        evidence=[
            f"used before by step {listed(earlier)}: the contributions of {passes_by_line(passes.values())}",
            f"in {counted(len(use.reused), 'parameter')}: {listed(case.names(use.reused), 4)}",
            *expectations(case, use),
        ],
        parameters=use.reused,
        facts={"passes": total, "reused": old, "earlier_steps": earlier, "gradients": compared(case, use)},
    )


def missing_clear(event: Step | HandStep, fresh: list[Backward]) -> str:
    if not fresh:
        return (
            f"call backward() before every step: {event.place} stepped again on gradients that were used up"
        )
    first = min(fresh, key=lambda backward: backward.number)
    if isinstance(event, HandStep):
        return f"set every parameter's .grad to None, or call .grad.zero_(), before {first.place}"
    return f"optimizer.zero_grad() is missing before {first.place}"


def compared(case: Case, use: Use) -> list[dict[str, Any]]:
    """Some gradients as they should have been and as they were, where that is known."""
    return [
        {"parameter": case.registry.name(number), "expected": expected, "actual": actual}
        for number, (expected, actual) in sorted(case.ledger.compared.items())
        if number in use.reused
    ]


def expectations(case: Case, use: Use) -> list[str]:
    return [
        f"expected gradient of {known['parameter']} {figures(known['expected'])}, actual {figures(known['actual'])}"
        for known in compared(case, use)[:2]
    ]


def figures(values: list[float]) -> str:
    shown = ", ".join(f"{value:.4g}" for value in values[:3])
    return shown if len(values) == 1 else f"[{shown}{', ...' if len(values) > 3 else ''}]"
