"""Contributions that no step ever used, and steps that had nothing to use.

Many correct programs drop contributions: the gradients that a generator's loss leaves in the discriminator,
attacks on inputs, the first half of SAM. So a drop is a mistake only where the step then had nothing, or where the
very calls that fill its window are dropped again and again. Read next: rules/windows.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cleargrad.doctor.events import Backward, End, Ids, Step, Zero
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.ledger import Use
from cleargrad.doctor.places import Place
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.sentences import counted, listed, passes_by_line

PATIENCE = 3  # steps in which a program does the same
LATER = 3  # empty steps after which other rules have said what they know of the reason

Kind = tuple[Place | None, Ids]  # of a backward pass: its line, and what it fills


def kind_of(backward: Backward) -> Kind:
    return backward.place, backward.parameters


def is_empty(use: Use) -> bool:
    """Whether a step found no contribution at all: no gradients, or only zeros."""
    return not use.by_hand and not use.reused and not any(use.fresh.values())


def steps_alike(event: Step, case: Case, found: object) -> int:
    """In how many steps of an optimizer in a row a rule has found the same, this one included."""
    last, times = case.memory.get(event.optimizer, (None, 0))
    times = times + 1 if found == last else 1
    case.memory[event.optimizer] = found, times
    return times


@rule("gradient-discarded", "error", on=Step)
def gradients_cleared_before_the_step(event: Step, case: Case) -> Iterator[Finding]:
    """backward, zero_grad, step: the step had nothing left."""
    use = case.ledger.use
    if use is None or not use.dropped or not is_empty(use):
        return
    passes, zeros = dropped_by(use.dropped.values())
    last = zeros[max(zeros)]
    where = "by the program itself" if last.place is None else f"at {last.place}"
    yield case.finding(
        event,
        f"step {event.step} ran without gradients: those of {passes_by_line(passes.values())} were cleared {where}",
        fix="clear gradients before backward() or after step(), not between them",
        evidence=[
            f"{counted(len(passes), 'backward call')} filled {listed(case.names(use.dropped), 4)}",
            f"cleared {where}, before the step at {event.place}",
        ],
        place=last.place,
        parameters=use.dropped,
    )


@rule("gradient-discarded", "error", on=Step)
def gradients_cleared_in_every_micro_batch(event: Step, case: Case) -> Iterator[Finding]:
    """zero_grad, backward, zero_grad, backward, step: of a window only the last micro-batch counts."""
    use = case.ledger.use
    if use is None:
        return
    count, zero = (0, None) if event.closure else micro_batches_lost(use)
    if zero is not None and zero.weights != case.ledger.weights:
        count = 0  # the weights were moved for the first passes, and back: SAM and its like
    needed = 2 if count > 1 else PATIENCE
    if steps_alike(event, case, count) < needed or not count or zero is None:
        return
    yield case.finding(
        event,
        f"step {event.step} used the last of {count + 1} backward calls; the others were cleared at {zero.place}",
        fix=f"call {zero.place} once per step, not once per micro-batch",
        evidence=[
            f"the same in each of the last {needed} steps",
            f"cleared before every backward at {zero.place}",
        ],
        place=zero.place,
        parameters=use.dropped,
    )


@rule("gradient-discarded", "error", on=Step)
def loss_cleared_before_the_next(event: Step, case: Case) -> Iterator[Finding]:
    """backward of one loss, zero_grad, backward of another from the same graph, step: the first loss is lost."""
    use = case.ledger.use
    if use is None:
        return
    lost = None if event.closure else losses_lost(use, case.ledger.weights)
    if steps_alike(event, case, lost) < PATIENCE or lost is None:
        return
    passes, zeros = dropped_by(use.dropped.values())
    last = zeros[max(zeros)]
    yield case.finding(
        event,
        f"step {event.step} used nothing of {passes_by_line(passes.values())}, whose gradients were cleared at "
        f"{last.place} before the next backward call",
        fix=f"leave out {last.place}: backward() adds up the gradients of all losses",
        evidence=[
            f"the same in each of the last {PATIENCE} steps",
            "nothing has read the gradients in between, and no hook has seen them",
        ],
        place=last.place,
        parameters=use.dropped,
    )


def losses_lost(use: Use, weights: object) -> tuple[tuple[Place | None, Place | None], ...] | None:
    """The lines of passes that were for nothing, and of what cleared them; None where they may have been of use."""
    passes, zeros = dropped_by(use.dropped.values())
    used = {backward.place for found in use.fresh.values() for backward in found}
    if not used or use.by_hand or use.reused or any(each.used for each in passes.values()):
        return None
    if not all(each.for_parameters_only and each.place not in used for each in passes.values()):
        return None
    if not all(zero.unread and zero.place is not None and zero.weights == weights for zero in zeros.values()):
        return None
    lines = [(backward.place, zero.place) for pairs in use.dropped.values() for backward, zero in pairs]
    return tuple(dict.fromkeys(lines)) or None


def micro_batches_lost(use: Use) -> tuple[int, Zero | None]:
    """How many passes of the same kind as the one that was used were dropped, all by the same line."""
    found: tuple[int, Zero | None] = (0, None)
    if use.by_hand or use.reused:
        return found
    for parameter, dropped in use.dropped.items():
        fresh = use.fresh.get(parameter, [])
        kinds = {kind_of(backward) for backward in fresh}
        kinds |= {kind_of(backward) for backward, _ in dropped}
        lines = {zero.place for _, zero in dropped}
        if len(fresh) != 1 or len(kinds) != 1 or len(lines) != 1 or None in lines:
            return 0, None
        if any(
            backward.used for backward, _ in dropped
        ):  # by other optimizers: one block of a model at a time
            return 0, None
        first = dropped[0][1]
        if use.cleared.get(parameter) not in lines:  # the first pass of the window followed another clearing
            return 0, None
        found = (len(dropped), first)
    return found


def dropped_by(dropped: Iterable[list[tuple[Backward, Zero]]]) -> tuple[dict[int, Backward], dict[int, Zero]]:
    """All passes and all clearings, by number."""
    passes, zeros = {}, {}
    for pairs in dropped:
        for backward, zero in pairs:
            passes[backward.number] = backward
            zeros[zero.number] = zero
    return passes, zeros


@rule("step-without-gradient", "error", on=(Backward, Step, End))
def step_without_gradient(event: Backward | Step | End, case: Case) -> Iterator[Finding]:
    """A step found no gradient, and none was dropped. With several optimizers, one may rest for a few steps."""
    memory = case.memory
    if isinstance(event, Backward):
        memory["backward"] = True
        return
    if isinstance(event, End):
        for steps in memory.get("empty", {}).values():
            if steps and not event.failed and steps[0].count == 1 and len(steps) == steps[-1].count:
                memory.setdefault("due", {})[steps[0].optimizer] = steps[0]
        for step in memory.get("due", {}).values():
            yield from nothing_to_step(case, step)
        return
    empty = memory.setdefault("empty", {}).setdefault(event.optimizer, [])
    due = memory.setdefault("due", {})
    use = case.ledger.use
    if use is None or use.dropped or not is_empty(use) or event.closure:
        empty.clear()
    else:
        empty.append(event)
        del empty[PATIENCE + LATER + 1 :]
        alone = sum(1 for optimizer in case.registry.optimizers if optimizer.steps) == 1
        patience = PATIENCE if not alone else 1 if memory.get("backward") else 2
        if len(empty) == patience and (alone or empty[0].count == 1):
            due[event.optimizer] = empty[0]
        if len(empty) < patience + LATER:
            return
    if event.optimizer in due:
        yield from nothing_to_step(case, due.pop(event.optimizer))


def nothing_to_step(case: Case, event: Step) -> Iterator[Finding]:
    """Told a little later than it is known: other rules may find out why there was no gradient."""
    parameters = event.without_gradient or event.with_gradient
    if parameters and case.registry.explained.issuperset(parameters):
        return
    yield case.finding(
        event,
        f"step {event.step} found no gradient in any of its {counted(len(parameters), 'parameter')}",
        fix="call backward() on a loss of these parameters before step(), outside no_grad()",
        evidence=[
            f"no backward call has filled {listed(case.names(parameters), 4)} since they were last cleared"
        ],
        parameters=parameters,
    )
