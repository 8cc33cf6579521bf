"""GradScaler used half: scaled gradients in a bare step, no update, a new scaler again and again.

Read next: session.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from cleargrad.doctor.events import (
    GradWrite,
    Scale,
    ScalerMade,
    ScalerStep,
    ScalerUpdate,
    Step,
    Unscale,
)
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import passes_by_line


@rule("scaler-misused", "error", on=(Step, Unscale, GradWrite), needs=Scale, every_time=True)
def bare_step_on_scaled_gradients(event: Step | Unscale | GradWrite, case: Case) -> Iterator[Finding]:
    """optimizer.step() on gradients that are still multiplied by the loss scale."""
    true_size: dict[int, int] = (
        case.memory
    )  # parameter: number of the event that gave its gradient its true size
    if isinstance(event, GradWrite):
        true_size.update(dict.fromkeys(event.parameters, event.number))
        return
    if isinstance(event, Unscale):
        records = case.registry.optimizers[event.optimizer].parameters
        true_size.update({record.number: event.number for record in records})
        return
    use = case.ledger.use
    if use is None or event.scaler is not None:
        return
    scaled = {}
    for number, passes in use.fresh.items():
        for backward in passes:
            if backward.scaler is not None and true_size.get(number, 0) < backward.number:
                scaled[backward.number] = backward
    if scaled:
        yield case.finding(
            event,
            f"step {event.step} used gradients that are still multiplied by the loss scale",
            fix="call scaler.step(optimizer) in place of optimizer.step(), then scaler.update()",
            evidence=[f"the loss was scaled before {passes_by_line(scaled.values())}, and never unscaled"],
            parameters=use.fresh,
        )


@rule("scaler-misused", "error", on=Step, needs=Scale, every_time=True)
def bare_step_beside_the_scaler(event: Step, case: Case) -> Iterator[Finding]:
    """scaler.step(optimizer) and optimizer.step() on the same gradients."""
    if is_second_step(event, case):
        yield case.finding(
            event,
            f"step {event.step} used gradients that scaler.step() had used already",
            fix=f"remove optimizer.step() at {event.place}: scaler.step(optimizer) calls it",
            evidence=["both steps follow the same backward call"],
            parameters=event.with_gradient,
        )


def is_second_step(event: Step, case: Case) -> bool:
    """Whether a bare step repeats what a scaler has just done."""
    use, before = case.ledger.use, case.ledger.before
    if use is None or before is None or event.scaler is not None or any(use.fresh.values()):
        return False
    by_scaler = not isinstance(before.step, Step) or before.step.scaler is not None
    return by_scaler and bool(event.with_gradient)


@rule("scaler-misused", "error", on=Step, needs=Scale, every_time=True)
def scaler_step_on_plain_gradients(event: Step, case: Case) -> Iterator[Finding]:
    """The loss was not scaled, but its gradients were divided by the scale."""
    use = case.ledger.use
    if use is None or event.scaler is None or use.by_hand:
        return
    passes = {backward.number: backward for found in use.fresh.values() for backward in found}
    if passes and all(backward.scaler is None and backward.root is not None for backward in passes.values()):
        yield case.finding(
            event,
            f"scaler.step() divided gradients by a scale that the loss was never multiplied by (step {event.step})",
            fix="call scaler.scale(loss).backward() in place of loss.backward()",
            evidence=[f"the backward calls were {passes_by_line(passes.values())}"],
            parameters=use.fresh,
        )


@rule("scaler-misused", "error", on=Step, needs=Scale, every_time=True)
def scaled_and_plain_gradients(event: Step, case: Case) -> Iterator[Finding]:
    """Of several losses only some were scaled: dividing by the scale makes the others' gradients tiny."""
    use = case.ledger.use
    if use is None or event.scaler is None or use.by_hand:
        return
    for number, found in use.fresh.items():
        bare = [backward for backward in found if backward.scaler is None and backward.root is not None]
        if bare and any(backward.scaler is not None for backward in found):
            yield case.finding(
                event,
                f"step {event.step} used scaled gradients together with plain ones ({passes_by_line(bare)}), which "
                "scaler.step() divided by the scale as well",
                fix=f"call scaler.scale(loss).backward() at {bare[0].place} too",
                evidence=[f"both are in the gradient of {case.registry.name(number)}"],
                place=bare[0].place,
                parameters=use.fresh,
            )
            return


@rule("scaler-misused", "error", on=(ScalerStep, ScalerUpdate), needs=Scale, every_time=True)
def update_missing(event: ScalerStep | ScalerUpdate, case: Case) -> Iterator[Finding]:
    """A second scaler.step() of one optimizer without scaler.update() in between."""
    stepped: dict[int, dict[int, ScalerStep]] = case.memory
    if isinstance(event, ScalerUpdate):
        stepped.pop(event.scaler, None)
        return
    before = stepped.setdefault(event.scaler, {}).get(event.optimizer)
    stepped[event.scaler][event.optimizer] = event
    if before is not None:
        yield case.finding(
            event,
            "scaler.step() was called twice for one optimizer without scaler.update() in between",
            fix=f"call scaler.update() once per iteration, after {before.place}",
            evidence=[f"the step before was at {before.place}"],
        )


@rule("scaler-misused", "warning", on=(ScalerMade, ScalerStep), needs=ScalerMade, every_time=True)
def scaler_made_again(event: ScalerMade | ScalerStep, case: Case) -> Iterator[Finding]:
    """A new scaler begins at the initial scale, and forgets what the old one had learnt."""
    made = case.memory.setdefault("made", {})
    if isinstance(event, ScalerMade):
        made[event.scaler] = event
        return
    place = made[event.scaler].place if event.scaler in made else None
    used = case.memory.setdefault(("used", event.optimizer, place), set())
    used.add(event.scaler)
    if place is not None and len(used) == 3:
        yield case.finding(
            event,
            "a new GradScaler is made again and again, so the loss scale never adapts",
            fix=f"make the scaler once, before the training loop, not at {place}",
            evidence=[f"{len(used)} scalers from {place} have stepped one optimizer"],
            place=place,
        )
