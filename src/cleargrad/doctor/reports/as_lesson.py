"""A healthy run as a lesson: the graph of the first step, then every call that touched a gradient, in plain words.

Notes come in (lesson.py); `write` makes the page, `in_words` the same for a terminal.
Read next: reports/as_html.py.
"""

from __future__ import annotations

import math
import textwrap
from html import escape
from typing import Any

from cleargrad.doctor.events import BackwardEnd, Clip, GradWrite, SchedulerStep, Skip, Step, Unscale, Zero
from cleargrad.doctor.lesson import Lesson, Look, Note
from cleargrad.doctor.places import Place
from cleargrad.doctor.reports.as_html import common_sections, findings, page
from cleargrad.doctor.reports.as_json import contents
from cleargrad.doctor.reports.as_text import watched
from cleargrad.doctor.reports.excerpts import excerpt
from cleargrad.doctor.reports.graph_figure import figure, size_in_words, summary
from cleargrad.doctor.sentences import counted, listed

INTRODUCTION = (
    "Training repeats four moves: compute a loss, let backward() find the gradient of every parameter, let the "
    "optimizer's step() move the parameters against it, and clear the gradients. This is what they did here."
)


def write(session: Lesson) -> str:
    """The page."""
    header = (
        f'<h1>How this program trains</h1>\n<p class="summary">{escape(watched(session))}</p>\n'
        f'<p class="soft">{INTRODUCTION}</p>'
    )
    sections = [
        ("graph", "The graph of the first step", graph_section(session)),
        ("calls", "What each call did", calls_section(session)),
        *common_sections(session),
    ]
    if len(session.findings):
        sections.insert(0, ("findings", "Findings", findings(session)))
    return page("How this program trains", header, sections, contents(session))


def in_words(session: Lesson, width: int = 80) -> str:
    """The lesson without its figures."""
    parts = [INTRODUCTION]
    if session.graph is not None:
        parts.append(f"Graph: {summary(session.graph)}")
    for note in session.notes:
        parts.append(f"{heading(note)}: {' '.join(sentences(note, session))}")
    return "\n\n".join(
        textwrap.fill(part, width, break_long_words=False, break_on_hyphens=False) for part in parts
    )


# Sections --------------------------------------------------------------------------------------------------


def graph_section(session: Lesson) -> str:
    if session.graph is None:
        return "<p>No loss with a graph was seen.</p>"
    return (
        f"<p>{escape(summary(session.graph))} Each box is something computed, with its shape and what it keeps for "
        "backward; green boxes are leaves, the parameters that gradients are added to. backward() walks the arrows "
        f"the other way, from the loss to the leaves.</p>{figure(session.graph)}"
    )


def calls_section(session: Lesson) -> str:
    if not session.notes:
        return "<p>Nothing touched a gradient.</p>"
    parts, step = [], 0
    for note in session.notes:
        if note.event.step != step:
            step = note.event.step
            parts.append(f"<h3>Step {step}</h3>")
        parts.append(said(note, session))
    return f'<div class="lesson">{"".join(parts)}</div>'


def said(note: Note, session: Lesson) -> str:
    place = note.event.place
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences(note, session))
    return (
        f'<div class="said"><h3>{escape(heading(note))}</h3>{source(place)}{text}{table(note, session)}</div>'
    )


def source(place: Place | None) -> str:
    lines = [] if place is None else excerpt(place.file, place.line, 0)
    return "".join(f"<p><code>{escape(line.text)}</code></p>" for line in lines)


# Words -----------------------------------------------------------------------------------------------------


def heading(note: Note) -> str:
    name = {
        BackwardEnd: "backward()",
        Zero: "Gradients are cleared",
        Clip: "Gradients are clipped",
        Unscale: "Gradients get their true size",
        GradWrite: "The program changes gradients",
        Step: "step()",
        Skip: "A step is left out",
        SchedulerStep: "The learning rate is set",
    }[type(note.event)]
    place = note.event.place
    return f"Step {note.event.step}, {name}" + ("" if place is None else f" at {place}")


def sentences(note: Note, session: Lesson) -> list[str]:
    event: Any = note.event
    if isinstance(event, Zero):
        return cleared(event, note)
    if isinstance(event, BackwardEnd):
        return walked(event, note)
    if isinstance(event, Step):
        return stepped(event, note, session)
    if isinstance(event, Clip):
        limit = f"{'norm' if event.how == 'norm' else 'value'} {event.limit:g}"
        changed = gradients_of(note.before) != gradients_of(note.after)
        did = (
            "They were larger, so all were made smaller"
            if changed
            else "They were small enough and stayed as they were"
        )
        return [
            f"Gradients of {counted(len(event.with_gradient), 'parameter')} may have at most {limit}. {did}."
        ]
    if isinstance(event, Unscale):
        return [
            "The loss had been multiplied, so that small gradients survive in half precision; this divides again."
        ]
    if isinstance(event, GradWrite):
        return [
            f"Gradients of {counted(len(event.parameters), 'parameter')} were {event.how} by the program itself."
        ]
    if isinstance(event, Skip):
        return [
            "A gradient was infinite or NaN, so the scaler left the step out and will use a smaller scale."
        ]
    return [f"{event.kind} set the learning rate to {listed([f'{rate:g}' for rate in note.rates])}."]


def cleared(event: Zero, note: Note) -> list[str]:
    had, memory = note.before.gradients, note.before.memory
    if not had:
        return ["There was nothing to clear yet: every .grad was None already."]
    if event.to_none:
        freed = memory - note.after.memory
        return [
            f".grad of {counted(had - note.after.gradients, 'parameter')} became None. The memory, "
            f"{size_in_words(freed)}, was given back; the next backward() makes new gradients.",
            "A parameter that gets no gradient next time is skipped by the optimizer: None means nothing to do.",
        ]
    return [
        f"set_to_none=False: .grad of {counted(had, 'parameter')} was filled with zeros and keeps its memory, "
        f"{size_in_words(note.after.memory)}; the next backward() adds to the zeros.",
        "A parameter that gets no gradient next time still has zeros, so momentum or weight decay go on moving it.",
    ]


def walked(event: BackwardEnd, note: Note) -> list[str]:
    new = note.after.gradients - note.before.gradients
    told = [
        "The walk from the loss to the leaves has ended; "
        f"{counted(note.after.gradients, 'parameter')} now have a gradient."
    ]
    if new:
        told.append(
            f"{new} of them had none: .grad was None and is now a new tensor, together "
            f"{size_in_words(note.after.memory - note.before.memory)}."
        )
    else:
        told.append("All had one already: what this pass found was added on top, so .grad is now a sum.")
    if event.backward.retain_graph:
        told.append("retain_graph=True kept the graph for another pass.")
    else:
        told.append("What the graph had kept for backward was let go.")
    return told


def stepped(event: Step, note: Note, session: Lesson) -> list[str]:
    kind = session.registry.optimizers[event.optimizer].kind
    rates = listed([f"{rate:g}" for rate in note.rates])
    told = [
        f"{kind} moved {counted(len(event.with_gradient), 'parameter')}, with learning rate {rates}. "
        "It read the gradients and left them as they were: they stay until they are cleared."
    ]
    if len(note.rates) == 1 and is_plain(note, note.rates[0]):
        told.append(f"Each weight changed by -{note.rates[0]:g} times its gradient.")
    elif note.state:
        names = listed(sorted(note.state), 4)
        told.append(
            f"The change is not the gradient times the learning rate: {kind} also uses what it remembers of "
            f"earlier steps ({names}; {size_in_words(sum(note.state.values()))})."
        )
    if event.without_gradient:
        told.append(f"{counted(len(event.without_gradient), 'parameter')} had no gradient and stayed.")
    return told


def is_plain(note: Note, rate: float) -> bool:
    """Whether the step was: weight minus learning rate times gradient."""
    checks = []
    for before, after in note.pairs():
        for old, new, gradient in zip(before.weight, after.weight, before.gradient or (), strict=False):
            checks.append(
                math.isclose(new - old, -rate * gradient, rel_tol=1e-2, abs_tol=1e-6 * max(1.0, abs(old)))
            )
    return bool(checks) and all(checks)


def gradients_of(look: Look) -> list[Any]:
    return [values.gradient for values in look.values]


# Values ----------------------------------------------------------------------------------------------------


def table(note: Note, session: Lesson) -> str:
    """Before and after, for a few elements; nothing where nothing changed."""
    of_weights = isinstance(note.event, Step)
    rows = []
    for before, after in note.pairs():
        old = before.weight if of_weights else before.gradient
        new = after.weight if of_weights else after.gradient
        if old != new:
            name = session.registry.name(after.parameter)
            rows += value_rows(name, old, new, before.gradient if of_weights else None)
    if not rows:
        return ""
    what = "Weights" if of_weights else "Gradients"
    last = "change" if of_weights or isinstance(note.event, (BackwardEnd, Clip)) else ""
    head = [
        ("element", ""),
        *([("gradient", "number")] if of_weights else []),
        ("before", "number"),
        ("after", "number"),
    ]
    head += [(last, "number")] if last else []
    cells = "".join(f'<th scope="col" class="{kind}">{text}</th>' for text, kind in head)
    body = "".join(row if last else row.partition("<!--change-->")[0] + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><caption>{what} of a few elements</caption><thead><tr>{cells}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def value_rows(name: str, old: Any, new: Any, gradient: Any) -> list[str]:
    count = max(len(old or ()), len(new or ()))
    rows = []
    for position in range(count):
        one = None if old is None else old[position]
        other = None if new is None else new[position]
        change = (other or 0.0) - (one or 0.0)
        cells = [
            *([gradient[position] if gradient is not None else None] if gradient is not None else []),
            one,
            other,
        ]
        text = "".join(f'<td class="number">{figures(cell)}</td>' for cell in cells)
        rows.append(
            f'<tr><th scope="row"><code>{escape(name)}[{position}]</code></th>{text}<!--change-->'
            f'<td class="number">{change:+.4g}</td></tr>'
        )
    return rows


def figures(value: float | None) -> str:
    return "None" if value is None else f"{value:.5g}"
