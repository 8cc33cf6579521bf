"""What became of a compiled function, in words: `cleargrad explain --compile` prints this.

For each program: the graph and what every pass did to it, the kernels with their formulas, what the host runs
and why, where buffers lie, and where the time goes. Short by default; `full` leaves nothing out. Read next:
cli/explain.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from cleargrad.compile.capture import Compiled
from cleargrad.compile.ending import Ending
from cleargrad.compile.names import names_of_tensors, things_of
from cleargrad.compile.traces import Tree
from cleargrad.compile.watched import PROFILED, WatchedProgram
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.programs.target import TARGET
from cleargrad.errors import line_of
from cleargrad.expr.expr import Expr
from cleargrad.graph.passes import PASSES, name_of
from cleargrad.ops.op import OPAQUE
from cleargrad.ops.record import Graph, Value
from cleargrad.schedule.fuse import Nest
from cleargrad.schedule.lifetimes import lifetimes, writes_of
from cleargrad.schedule.passes import stages
from cleargrad.schedule.schedule import Schedule
from cleargrad.schedule.statements import KINDS, READERS, Host
from cleargrad.schedule.text import (
    KINDS_OF_ENTRIES,
    SURE,
    Names,
    amount,
    bytes_of,
    described,
    kind_of,
    place_lines,
)

ROWS = 12  # kernels that a short report shows
LINES = 6  # lines of one kernel that it shows
WIDTH = 110


def report(compiled: Compiled, full: bool = False) -> str:
    """All that is known of a compiled function."""
    things = dict(things_of(compiled.function))
    return report_of_tree(str(compiled.title), compiled.tree, things, full, python_lines(compiled))


def python_lines(compiled: Compiled) -> list[str]:
    """Whether calls were made without Python, and what was in the way of that."""
    lines = []
    without = sum(shortcut.runs for shortcut in compiled.shortcuts)
    if without:
        lines.append(f"{without} of the calls without Python: all that it had read was as before")
    if compiled.unproven is not None:
        why, place = compiled.unproven
        lines.append(f"Python runs, for {why}{'' if place is None else f' at {line_of(place)}'}")
    return lines


def report_of_tree(
    title: str, tree: Tree, things: dict[str, Any], full: bool = False, python: Sequence[str] = ()
) -> str:
    """What became of the traces of a function or a script; `things` give tensors their names."""
    count = len(tree.endings)
    lines = [f"{title}: {count} program{'' if count == 1 else 's'}"]
    lines += indented([*trace_lines(tree, full), *python])
    if not count:
        lines.append("Nothing was compiled: no trace of calls has ended in the same way twice.")
    known = names_of_tensors(things)
    for number, ending in enumerate(tree.endings, 1):
        lines += ["", f"Program {number}, {title_of(ending)}", *indented(about(*named(ending, known), full))]
    return "\n".join(line.rstrip() for line in lines)


def trace_lines(tree: Tree, full: bool) -> list[str]:
    """How traces ended, the commonest first, and what computed them."""
    numbers = {id(ending): number for number, ending in enumerate(tree.endings, 1)}
    found: Counter[str] = Counter()
    for ends, times in (tree.ends or Counter()).items():
        fate = "call by call"
        if id(ends.fate) in numbers:
            fate = f"by program {numbers[id(ends.fate)]}"
        elif isinstance(ends.fate, str):
            fate = f"call by call, for {ends.fate}"
        where = "" if ends.place is None else f" at {line_of(ends.place)}"
        calls = f"{ends.calls} call{'' if ends.calls == 1 else 's'}"
        found[f"{calls}, {fate}, when {ends.why}{where}"] += times
    lines = [f"{times} x {text}" for text, times in found.most_common(None if full else ROWS)]
    left = len(found) - len(lines)
    return lines + ([f"and {left} other ways (--full shows them)"] if left else [])


def title_of(ending: Ending) -> str:
    shapes = ", ".join(
        f"{name} {shape_of(value.spec)}"
        for name, value, _ in zip(ending.input_names, ending.graph.inputs, ending.inputs)
    )
    times = f"{ending.runs} run{'' if ending.runs == 1 else 's'}"
    return f"{ending.calls} calls, {times}{f', for {shapes}' if shapes else ''}"


def named(ending: Ending, known: dict[int, str]) -> tuple[Any, Names | None]:
    """A program, and the names of what it touches."""
    program = ending.program
    if not isinstance(program, WatchedProgram):
        return program, None
    outputs = {}
    for number, reference in ending.leaves.items():
        leaf = reference()
        if leaf is not None and id(leaf._data) in known:
            outputs[number] = f"{known[id(leaf._data)]}.grad"

    def called(tensor: Tensor) -> str | None:
        return known.get(id(tensor._data))

    return program, Names(program.plan, called, ending.input_names, outputs)


def about(program: Any, names: Names | None, full: bool) -> list[str]:
    if names is None:
        return [f"made by {type(program).__name__}, of which there is nothing to tell"]
    sections = {
        "graph": graph_lines(program, full),
        "schedule": schedule_lines(program),
        "kernels": kernel_lines(program),
        "host calls": host_lines(program),
        "memory": memory_lines(program, names, full),
        "time": time_lines(program),
        "all kernels, in order" if full else "where the time goes": entry_lines(program, names, full),
    }
    lines = []
    for title, section in sections.items():
        if section:
            lines += [title, *indented(section)]
    return lines


# The graph -------------------------------------------------------------------------------------------------


def graph_lines(program: WatchedProgram, full: bool) -> list[str]:
    """The recorded graph, and what each pass changed."""
    graph = program.graph
    lines = [
        f"{len(graph.calls)} calls recorded: {counted(Counter(call.op.name for call in graph.calls), full)}",
        f"{len(graph.inputs)} inputs, {len(graph.outside)} tensors from outside, {len(graph.constants)} constants, "
        f"{len(graph.outputs)} outputs, {len(graph.writes)} tensors written",
    ]
    for change in PASSES:
        after = change(graph)
        lines.append(f"{name_of(change)}: {what_changed(graph, after, full)}")
        graph = after
    return lines + (["", *str(graph).splitlines()] if full else [])


def schedule_lines(program: WatchedProgram) -> list[str]:
    """The statements of the graph, and what each pass changed."""
    lines: list[str] = []
    before: Facts | None = None
    for stage, schedule in stages(program.graph, TARGET):
        after = Facts(schedule)
        lines.append(f"{stage}: {after.noted() if before is None else after.changed(before)}")
        before = after
    return lines


class Facts:
    """What is to be told of a schedule; passes change parts of one while they make the next."""

    def __init__(self, schedule: Schedule) -> None:
        entries, self.plan = schedule.entries, schedule.plan
        found = Counter(kind_of(entry) for entry in entries)
        self.kinds = {name: found[name] for _, name in KINDS_OF_ENTRIES if found[name]}
        self.order = [min((buffer.number for buffer in writes_of(entry)), default=-1) for entry in entries]
        self.registers = sum(
            not member.kept for nest in entries if isinstance(nest, Nest) for member in nest.members
        )
        self.placed, self.sure = len(schedule.in_place), schedule.sure

    def noted(self) -> str:
        notes = [f"{count} {note}" for note, count in self.plan.notes.items() if count]
        return "; ".join([self.counted(), *notes])

    def counted(self) -> str:
        return f"{len(self.order)} entries: {', '.join(f'{n} {name}' for name, n in self.kinds.items())}"

    def changed(self, before: Facts) -> str:
        """What a pass has done."""
        parts = []
        if self.kinds != before.kinds:
            parts.append(self.counted())
        elif sorted(self.order) == sorted(before.order) and self.order != before.order:
            moved = sum(one != other for one, other in zip(self.order, before.order, strict=True))
            parts.append(f"{moved} entries have moved")
        if self.registers > before.registers:
            parts.append(f"{self.registers - before.registers} values live in registers only")
        if self.sure < min(before.sure, len(self.order)):
            parts.append(f"nothing can fail from entry {self.sure} on")
        if self.placed > before.placed:
            parts.append(f"{self.placed} of {len(self.plan.writes)} tensors are written where they lie")
        return "; ".join(parts) or "no change"


def what_changed(before: Graph, after: Graph, full: bool) -> str:
    gone = Counter(call.op.name for call in before.calls)
    gone.subtract(call.op.name for call in after.calls)
    parts = [f"{len(before.calls)} -> {len(after.calls)} calls"]
    less = Counter({name: count for name, count in gone.items() if count > 0})
    more = Counter({name: -count for name, count in gone.items() if count < 0})
    parts += [f"gone: {counted(less, full)}"] if less else []
    parts += [f"new: {counted(more, full)}"] if more else []
    for what, old, new in (
        ("constants", before.constants, after.constants),
        ("tensors from outside", before.outside, after.outside),
    ):
        parts += [f"{len(old)} -> {len(new)} {what}"] if len(old) != len(new) else []
    return "; ".join(parts) if len(parts) > 1 else "no change"


def counted(names: Counter, full: bool) -> str:
    """Names with how often, the most frequent first."""
    common = names.most_common(None if full else 8)
    rest = len(names) - len(common)
    return ", ".join(f"{count} {name}" for name, count in common) + (f" and {rest} others" if rest else "")


# Kernels ---------------------------------------------------------------------------------------------------


def kernel_lines(program: WatchedProgram) -> list[str]:
    different = len(set(program.commands.records[:, 0].tolist()))
    native = sum(isinstance(segment, tuple) for segment in program.segments)
    return [
        f"{different} kernels, run {len(program.commands.records)} times: {program.compiled} compiled now, "
        f"{program.from_disk} from the disk cache, {program.known} in this process before",
        f"{native} native call{'' if native == 1 else 's'} a step on {program.team.threads} threads; "
        f"the program took {program.seconds:.2f} s to make",
    ]


def host_lines(program: WatchedProgram) -> list[str]:
    rows = Counter((host.call.op.name, why_host(host)) for host in program.host_calls)
    return [f"{count} x {name}: {reason}" for (name, reason), count in rows.most_common()]


def why_host(host: Host) -> str:
    """Why NumPy runs a call; the rules are those of schedule/statements.py."""
    call = host.call
    values = [x for x in (*call.operands, *call.results) if isinstance(x, Value)]
    strange = sorted({str(x.spec.dtype) for x in values} - {f"torch.{kind}" for kind in KINDS})
    if strange:
        return f"kernels do not know {', '.join(strange)}"
    if isinstance(call.op.lower, Expr):
        return f"a formula without machine code for {call.results[0].spec.dtype}: {short(repr(call.op.lower), 60)}"
    if call.op.name in READERS or call.op.name in TARGET.kernels:
        shapes = ", ".join(shape_of(x.spec) for x in values)
        return f"its kernel does not take this form: {shapes}"
    if call.op.lower is OPAQUE:
        return "there is no kernel for it"
    return "the compiler knows no such form"


# Memory ----------------------------------------------------------------------------------------------------


def memory_lines(program: WatchedProgram, names: Names, full: bool) -> list[str]:
    """The arena, who shares it, and what is written in place."""
    held = [buffer for buffer in program.offsets if buffer.size]
    apart = sum(map(bytes_of, held))
    saved = f"; side by side they would take {amount(apart)}" if apart > program.size else ""
    outputs = sum(map(bytes_of, program.outputs))
    lines = [
        f"one block of {amount(program.size)} for {len(held)} buffers{saved}",
        f"{len(program.outputs)} outputs of {amount(outputs)} lie outside of it",
    ]
    inside = sum(
        not member.kept for nest in program.entries if isinstance(nest, Nest) for member in nest.members
    )
    lines.append(f"{inside} values live in registers only")
    if program.replaced:
        lines.append(
            f"{len(program.replaced)} tensors are written where they lie: {listed(program.replaced, names, full)}"
        )
    if program.copied:
        late = [buffer for _, buffer in program.copied]
        lines.append(
            f"{len(late)} tensors are written at the end, for old content is needed: {listed(late, names, full)}"
        )
    places = place_lines(program.offsets, lifetimes(program.entries), names, None if full else 4)
    return lines + indented(places)


def listed(buffers: Any, names: Names, full: bool) -> str:
    known = [names(buffer).removeprefix("new ") for buffer in buffers]
    shown = known if full else known[:4]
    return ", ".join(shown) + (f" and {len(known) - len(shown)} more" if len(known) > len(shown) else "")


# Time ------------------------------------------------------------------------------------------------------


def time_lines(program: WatchedProgram) -> list[str]:
    if not program.costs:
        return ["the program has not run"]
    total = sum(program.costs.values())
    runs = min(program.runs, PROFILED)
    lines = [f"{duration(total)} a step on one thread, kernel by kernel (the least of {runs} runs)"]
    if program.times:
        whole = median(program.times)
        lines.append(
            f"{duration(whole)} a step on {program.team.threads} threads (median of {len(program.times)} runs)"
        )
    kinds: dict[str, float] = {}
    for entry in program.entries:
        kinds[kind_of(entry)] = kinds.get(kind_of(entry), 0.0) + program.cost(entry)
    dearest = sorted(kinds.items(), key=lambda pair: -pair[1])
    shares = (f"{name} {100 * cost / total:.0f} %" for name, cost in dearest if cost)
    return [*lines, ", ".join(shares)]


def entry_lines(program: WatchedProgram, names: Names, full: bool) -> list[str]:
    """Kernels with their times: the dearest first or, in full, all of them in the order they run."""
    total = sum(program.costs.values()) or 1.0
    order = list(enumerate(program.entries))
    if not full:
        order = sorted(order, key=lambda pair: -program.cost(pair[1]))[:ROWS]
    lines = []
    for number, entry in order:
        if full and number == program.sure > 0:
            lines.append(SURE)
        cost = program.cost(entry)
        title, formulas = described(entry, names)
        lines.append(f"{duration(cost):>9} {100 * cost / total:5.1f} %  {number:4}  {title}")
        shown = formulas if full else formulas[:LINES]
        lines += [" " * 26 + (text if full else short(text, WIDTH - 26)) for text in shown]
        if len(formulas) > len(shown):
            lines.append(" " * 26 + f"... and {len(formulas) - len(shown)} more")
    left = len(program.entries) - len(order)
    if left:
        rest = total - sum(program.cost(entry) for _, entry in order)
        lines.append(
            f"{duration(max(rest, 0.0)):>9} {100 * rest / total:5.1f} %        in {left} others (--full shows them)"
        )
    return lines


def duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.1f} us"


# Text ------------------------------------------------------------------------------------------------------


def shape_of(spec: Any) -> str:
    return f"{spec.dtype.name}{list(spec.shape)}"


def short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
