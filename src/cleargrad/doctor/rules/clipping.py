"""Clipping in the wrong place of a window, or of nothing. The right order is backward, unscale, clip, step.

Clipping with an infinite limit only measures the norm, which may be done anywhere. Read next: rules/scaling.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from cleargrad.doctor.events import Clip, GradWrite, Scale, Step, Unscale
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.ledger import LONGEST_BUCKET
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.rules.drop import kind_of
from cleargrad.doctor.sentences import counted, listed

SCALED_LIMIT = 256  # a limit this large may have been multiplied by the loss scale


@rule("clip-misplaced", "error", on=(Clip, Step), needs=Clip, every_time=True)
def clip_after_step(event: Clip | Step, case: Case) -> Iterator[Finding]:
    """Everything that is clipped has been used already."""
    if isinstance(event, Step) or math.isinf(event.limit) or not event.with_gradient:
        return
    buckets = [case.ledger.bucket(number) for number in event.with_gradient]
    if any(bucket.by_hand or not bucket.live or bucket.used < len(bucket.live) for bucket in buckets):
        return
    used = buckets[0].uses[-1] if buckets[0].uses else None
    if not isinstance(used, Step):
        return
    yield case.finding(
        event,
        f"gradients were clipped after step {used.step} had used them",
        fix=f"clip between backward() and the step at {used.place}",
        evidence=[
            f"the step at {used.place} came first",
            f"clipped: {listed(case.names(event.with_gradient), 4)}",
        ],
        parameters=event.with_gradient,
    )


@rule("clip-misplaced", "error", on=(Clip, Unscale, GradWrite), needs=Scale, every_time=True)
def clip_before_unscale(event: Clip | Unscale | GradWrite, case: Case) -> Iterator[Finding]:
    """Gradients are still multiplied by the loss scale when they are clipped."""
    unscaled: dict[int, int] = case.memory  # parameter: number of the event that gave it its true size
    if isinstance(event, GradWrite):
        unscaled.update(dict.fromkeys(event.parameters, event.number))
        return
    if isinstance(event, Unscale):
        records = case.registry.optimizers[event.optimizer].parameters
        unscaled.update({record.number: event.number for record in records})
        return
    if event.limit >= SCALED_LIMIT:
        return
    for number in event.with_gradient:
        bucket = case.ledger.bucket(number)
        scaled = [backward for backward in bucket.fresh if backward.scaler is not None]
        if scaled and not bucket.by_hand and unscaled.get(number, 0) < scaled[-1].number:
            yield case.finding(
                event,
                "gradients were clipped while they were still multiplied by the loss scale",
                fix=f"call scaler.unscale_(optimizer) before {event.place}",
                evidence=[f"the loss was scaled at {scaled[-1].place}, and unscale_ was not called since"],
                parameters=event.with_gradient,
            )
            return


@rule("clip-misplaced", "error", on=(Clip, Step), needs=Clip, every_time=True)
def clip_before_backward(event: Clip | Step, case: Case) -> Iterator[Finding]:
    """What is clipped is empty, and is filled afterwards."""
    clips: dict[int, Clip] = case.memory  # parameter: the last clipping of it, if there was nothing in it
    if isinstance(event, Clip):
        for number in event.parameters:
            bucket = case.ledger.bucket(number)
            if bucket.live or bucket.by_hand or math.isinf(event.limit):
                clips.pop(number, None)
            else:
                clips[number] = event
        return
    use = case.ledger.use
    mine = {
        number: clips.pop(number)
        for number in (*event.with_gradient, *event.without_gradient)
        if number in clips
    }
    if use is None or not mine:
        return
    early = [
        number
        for number, clip in mine.items()
        if use.fresh.get(number) and number not in use.by_hand and clip.number < use.fresh[number][0].number
        and not use.reused.get(number)
    ]  # fmt: skip
    if early and len(early) == sum(1 for number in mine if use.fresh.get(number)):
        clip = mine[early[0]]
        first = use.fresh[early[0]][0]
        yield case.finding(
            event,
            f"gradients were clipped before backward() had filled them, so step {event.step} used them unclipped",
            fix=f"clip after {first.place} and before {event.place}",
            evidence=[f"clipped at {clip.place}, filled at {first.place}, used at {event.place}"],
            place=clip.place,
            parameters=early,
        )


@rule("clip-misplaced", "warning", on=(Clip, Step), needs=Clip, every_time=True)
def clip_in_every_micro_batch(event: Clip | Step, case: Case) -> Iterator[Finding]:
    """The sum so far is clipped after each of several passes, so the passes do not count alike."""
    seen: dict[int, list[tuple[Clip, int]]] = (
        case.memory
    )  # parameter: clippings of this window, passes in it then
    if isinstance(event, Clip):
        if not math.isinf(event.limit):
            for number in event.with_gradient:
                seen.setdefault(number, []).append((event, len(case.ledger.bucket(number).fresh)))
                del seen[number][:-LONGEST_BUCKET]
        return
    use = case.ledger.use
    found: list[int] = []
    line, times = None, 0
    for number in event.with_gradient:
        clips = seen.pop(number, [])
        passes = [] if use is None else use.fresh.get(number, [])
        lines = {clip.place for clip, _ in clips}
        sizes = [size for _, size in clips]
        same = len({kind_of(backward) for backward in passes}) == 1 and len(lines) == 1
        if same and len(clips) > 1 and sizes == list(range(1, len(passes) + 1)):
            found.append(number)
            line, times = clips[0][0].place, len(clips)
    if found and line is not None:
        yield case.finding(
            event,
            f"gradients were clipped after every micro-batch, {times} times before step {event.step}",
            fix="clip once, after the last backward() of the window and before step()",
            evidence=[f"clipped at {line} after each backward call of the window"],
            place=line,
            parameters=found,
        )


@rule("clip-nothing", "error", on=(Clip, Step), needs=Clip, every_time=True)
def clip_nothing(event: Clip | Step, case: Case) -> Iterator[Finding]:
    """A clipping saw no gradient, although the step after it had some, and none of those was clipped."""
    pending: list[Clip] = case.memory.setdefault("pending", [])
    if isinstance(event, Clip):
        if not math.isinf(event.limit):
            pending.append(event)
        del pending[:-16]
        return
    use = case.ledger.use
    clips = list(pending)
    pending.clear()
    if use is None or not clips or use.by_hand:
        return
    stepped = {number for number, passes in use.fresh.items() if passes}
    if not stepped or any(clip.with_gradient or stepped.intersection(clip.parameters) for clip in clips):
        return
    clip = clips[-1]
    seen = case.memory[clip.place] = case.memory.get(clip.place, 0) + 1
    several = sum(1 for optimizer in case.registry.optimizers if optimizer.steps) > 1
    if clip.given and (seen < 2 or several):
        return
    what = f"{counted(clip.given, 'parameter')} without a gradient" if clip.given else "no parameters at all"
    yield case.finding(
        event,
        f"clipping at {clip.place} was given {what}, so step {event.step} used unclipped gradients",
        fix="pass model.parameters() itself: a generator that was used once is empty"
        if not clip.given
        else "pass the parameters that the optimizer steps",
        evidence=[f"the step at {event.place} used gradients of {listed(case.names(stepped), 4)}"],
        place=clip.place,
        parameters=stepped,
    )
