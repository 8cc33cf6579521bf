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
from cleargrad.compile.formula_text import Names, lines_of, names_of_tensors, things_of
from cleargrad.compile.traces import Tree
from cleargrad.compile.watched import PROFILED, WatchedProgram
from cleargrad.devices.cpu.programs.target import TARGET
from cleargrad.errors import line_of
from cleargrad.expr.expr import Expr
from cleargrad.graph.passes import PASSES
from cleargrad.ops.op import OPAQUE
from cleargrad.ops.record import Graph, Value
from cleargrad.schedule.formulas import Load
from cleargrad.schedule.fuse import Nest
from cleargrad.schedule.lifetimes import lifetimes
from cleargrad.schedule.statements import KINDS, READERS, AddRows, Host, Native, Product

ROWS = 12  # kernels that a short report shows
LINES = 6  # lines of one kernel that it shows
WIDTH = 110
KINDS_OF_ENTRIES: list[tuple[type, str]] = [
    (Nest, "loop nests"),
    (Product, "matrix products"),
    (Native, "kernels of their own"),
    (AddRows, "scatters of rows"),
    (Host, "host calls"),
]


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
    return program, Names(program, known, ending.input_names, outputs)


def about(program: Any, names: Names | None, full: bool) -> list[str]:
    if names is None:
        return [f"made by {type(program).__name__}, of which there is nothing to tell"]
    sections = {
        "graph": graph_lines(program, full),
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
    for name, change in PASSES:
        after = change(graph)
        lines.append(f"{name}: {what_changed(graph, after, full)}")
        graph = after
    kinds = Counter(kind_of(entry) for entry in program.entries)
    found = ", ".join(f"{kinds[name]} {name}" for _, name in KINDS_OF_ENTRIES if kinds[name])
    lines.append(
        f"fused: {len(graph.calls)} calls -> {len(program.plan.statements)} statements -> {found or 'nothing'}"
    )
    return lines + (["", *str(graph).splitlines()] if full else [])


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


def kind_of(entry: Any) -> str:
    return next((name for kind, name in KINDS_OF_ENTRIES if isinstance(entry, kind)), type(entry).__name__)


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


def described(entry: Any, names: Names) -> tuple[str, list[str]]:
    """An entry in a few words, and what it computes line by line."""
    if isinstance(entry, Nest):
        rows, cols = (" x ".join(map(str, extents)) for extents in (entry.rows, entry.cols))
        way = "by columns over" if entry.columns else "over"
        return f"nest {way} {f'{rows} rows of ' if rows else ''}{cols or 'one'}", lines_of(entry, names)
    if isinstance(entry, Product):
        left, right, place = (load_text(load, names) for load in (entry.left, entry.right, entry.place))
        sign = "+=" if entry.adds else "="
        return f"product {sizes(entry)}", [f"{place} {sign} {left} @ {right}"]
    if isinstance(entry, AddRows):
        place, rows, places = (names(load.buffer) for load in (entry.place, entry.rows, entry.places))
        return f"scatter of {entry.rows.shape} rows", [f"{place}[{places}] += {rows}"]
    if isinstance(entry, Native):
        title = native_name(entry)
        given = ", ".join(f"{name} {load_text(load, names)}" for name, load in entry.operands.items())
        return title, [f"{', '.join(load_text(x, names) for x in entry.results.values())} = {title}({given})"]
    if isinstance(entry, Host):
        given = ", ".join(load_text(x, names) if isinstance(x, Load) else str(x) for x in entry.operands)
        results = ", ".join(f"{names(buffer)} {list(buffer.shape)}" for buffer in entry.results)
        return f"host call of {entry.call.op.name}", [f"{results} = {entry.call.op.name}({given})"]
    return kind_of(entry), []


def native_name(entry: Native) -> str:
    """What its kernels compute, after the function that chooses them: a module's, or one inside of a rule."""
    choose: Any = entry.choose
    function = getattr(choose, "func", choose)
    module, name = function.__module__.split(".")[-1], function.__qualname__.split(".")[0]
    return (name if "<locals>" in function.__qualname__ else f"{module} {name}").replace("_", " ")


def sizes(entry: Product) -> str:
    *batch, m, n = entry.place.shape
    many = f"{' x '.join(map(str, batch))} times " if batch else ""
    return f"{many}{m} x {entry.left.shape[-1]} by {entry.left.shape[-1]} x {n}"


def load_text(load: Load, names: Names) -> str:
    turned = len(load.shape) > 1 and 0 < load.strides[-2] < load.strides[-1]
    return f"{names(load.buffer)}{'.T' if turned else ''} {list(load.shape)}"


# Memory ----------------------------------------------------------------------------------------------------


def memory_lines(program: WatchedProgram, names: Names, full: bool) -> list[str]:
    """The arena, who shares it, and what is written in place."""
    size = {buffer: buffer.size * buffer.dtype.itemsize for buffer in program.offsets if buffer.size}
    apart = sum(size.values())
    saved = f"; side by side they would take {amount(apart)}" if apart > program.size else ""
    outputs = sum(buffer.size * buffer.dtype.itemsize for buffer in program.outputs)
    lines = [
        f"one block of {amount(program.size)} for {len(size)} buffers{saved}",
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
    spans = lifetimes(program.entries)
    largest = sorted(size, key=lambda buffer: -size[buffer])[: None if full else 4]
    for buffer in largest:
        first, last = spans.get(
            buffer, (-1 - buffer.number,) * 2
        )  # work memory of a product lives for one entry
        what = "work memory" if buffer.number < 0 else f"{names(buffer)} {list(buffer.shape)}"
        lines.append(
            f"  {amount(size[buffer]):>9} at {program.offsets[buffer]:>10}, kernels {first} to {last}: {what}"
        )
    return lines


def listed(buffers: Any, names: Names, full: bool) -> str:
    known = [names(buffer).removeprefix("new ") for buffer in buffers]
    shown = known if full else known[:4]
    return ", ".join(shown) + (f" and {len(known) - len(shown)} more" if len(known) > len(shown) else "")


def amount(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


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
