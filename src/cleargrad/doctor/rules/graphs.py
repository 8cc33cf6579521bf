"""Graphs that are broken, so that gradients do not arrive, and graphs that are kept, so that memory grows.

A cut (`detach`, `.data`, `torch.tensor(...)`) is ordinary; it is a mistake only where the parameters before it
never receive a gradient although their optimizer steps. Read next: rules/holders.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from cleargrad.doctor.events import Backward, Cut, Forward, Step
from cleargrad.doctor.findings import Finding
from cleargrad.doctor.places import Place
from cleargrad.doctor.rules import Case, rule
from cleargrad.doctor.rules.holders import find_holder
from cleargrad.doctor.sentences import counted, listed

PATIENCE = 3  # steps without a gradient; by then it is known whether the program writes the parameters itself
KEPT = 5  # steps after each of which one more graph is alive
IN_WORDS = {
    "detach": ".detach()",
    "data": ".data",
    "tensor": "torch.tensor(...) of a tensor",
    "item": "turning it into Python numbers",
    "leaf": "making a new tensor that requires a gradient",
}


class Pass:
    """One forward pass: the modules in the order in which they ran, and the cuts between them."""

    def __init__(self) -> None:
        self.modules: tuple[int, ...] = ()
        self.cuts: list[Cut] = []


def cut_behind(run: Pass, broken: set[int], healthy: set[int]) -> Cut | None:
    """The cut that took modules out of the graph: right behind them, or before a healthy module that ran on."""
    order = {number: index for index, number in enumerate(run.modules)}
    positions = [order[number] for number in broken if number in order]
    if not positions:
        return None
    for cut in run.cuts:
        if cut.how == "leaf" or cut.after is None or cut.after not in order:
            continue
        here = order[cut.after]
        if here < min(positions):
            continue
        between = run.modules[min(positions) : here + 1]
        follows = any(number in healthy for number in run.modules[here + 1 :])
        direct = not any(number in healthy for number in between)
        if (follows and direct) if cut.how == "item" else (follows or direct):
            return cut
    return None


@rule("graph-broken", "error", on=(Cut, Forward, Backward, Step))
def graph_broken(event: Any, case: Case) -> Iterator[Finding]:
    """Modules ran, but no gradient comes back to them."""
    memory = case.memory
    if isinstance(event, Cut):
        memory.setdefault("next", Pass()).cuts.append(event)
    elif isinstance(event, Forward):
        memory.setdefault("next", Pass()).modules = event.modules
    elif isinstance(event, Backward):
        run = memory.pop("next", None)
        if run is not None:
            memory["run"] = run
        memory["pass"] = event
    elif event.without_gradient:
        yield from broken_at(event, case)


def broken_at(event: Step, case: Case) -> Iterator[Finding]:
    run: Pass | None = case.memory.get("run")
    if run is None:
        return
    records = case.registry.parameters
    broken = [number for number in event.without_gradient if not records[number].received]
    seen = case.memory.setdefault("seen", {})
    seen[event.optimizer] = seen.get(event.optimizer, 0) + 1 if broken else 0
    if seen[event.optimizer] != PATIENCE:
        return
    broken = [number for number in broken if not records[number].written]
    last: Backward = case.memory["pass"]
    if not event.with_gradient and (last.root is None or any(cut.how == "leaf" for cut in run.cuts)):
        yield loss_is_made_anew(event, case, run, last, broken)
        return
    yield from cut_off(event, case, run, broken)


def cut_off(event: Step, case: Case, run: Pass, broken: list[int]) -> Iterator[Finding]:
    records = case.registry.parameters
    lost = {module for number in broken for module in records[number].modules}
    healthy = {module for record in records if record.received for module in record.modules} - lost
    groups: dict[Cut, list[int]] = {}
    for number in broken:
        own = [cut for cut in run.cuts if number in cut.behind and (cut.after is not None or not run.modules)]
        cut = own[0] if own else cut_behind(run, records[number].modules, healthy)
        if cut is not None:
            groups.setdefault(cut, []).append(number)
    for cut, numbers in groups.items():
        case.registry.explained.update(numbers)
        yield case.finding(
            event,
            f"no gradient reaches {listed(case.names(numbers), 4)}: {IN_WORDS[cut.how]} at {cut.place} takes the "
            "result out of the graph",
            fix=f"leave out {IN_WORDS[cut.how]} at {cut.place}; if the layers are meant to rest, freeze them with "
            "requires_grad_(False)",
            evidence=[f"they ran forward before {event.place} in every step, and never received a gradient"],
            place=cut.place,
            parameters=numbers,
        )


def loss_is_made_anew(event: Step, case: Case, run: Pass, last: Backward, broken: list[int]) -> Finding:
    """backward() of a tensor that has no history, or one that begins at a tensor of its own."""
    cuts = [cut for cut in run.cuts if cut.how != "item"] or run.cuts
    place: Place | None = cuts[-1].place if cuts else last.place
    case.registry.explained.update(broken)
    history = "has no history" if last.root is None else "does not lead back to the model"
    return case.finding(
        event,
        f"the loss of {last.place} {history}, so backward() reaches no parameter: it was made anew at {place}",
        fix="call backward() on the loss that the model's output led to, without re-wrapping it",
        evidence=[f"no gradient in {counted(len(broken), 'parameter')}: {listed(case.names(broken), 4)}"],
        place=place,
        parameters=broken,
    )


@rule("graph-retained", "warning", on=(Backward, Step))
def graph_retained(event: Backward | Step, case: Case) -> Iterator[Finding]:
    """After every step one more graph is still alive."""
    memory = case.memory
    if isinstance(event, Step):
        memory["stepped"] = True
        return
    if not memory.pop("stepped", False):
        return
    history = memory.setdefault("alive", [])
    history.append(event.graphs_alive)
    del history[: -(KEPT + 1)]
    growing = all(before < now for before, now in pairwise(history))
    if len(history) <= KEPT or not growing or memory.get("told"):
        return
    memory["told"] = True
    holder = find_holder()
    name, place = (None, None) if holder is None else holder
    what = "something" if name is None else f"`{name}`"
    yield case.finding(
        event,
        f"{what} keeps the graphs of past steps alive: {event.graphs_alive} of them in step {event.step}, one more "
        "with every step, so memory grows",
        fix="keep a number, not the tensor: loss.item(), or loss.detach() on a GPU",
        evidence=[f"graphs alive before the last steps: {listed(history, 8)}"],
        place=place,
        facts={"graphs_alive": list(history)},
    )
