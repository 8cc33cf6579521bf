"""Computing what waits: by the program of a trace, or call by call.

Read next: compile/building.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cleargrad.compile.acts import Called, Updated, arrays_of
from cleargrad.compile.ending import Ending, ending_of
from cleargrad.compile.traces import FREE, Fixed, Step, Tree
from cleargrad.core.mode import mode
from cleargrad.core.shortage import shortage
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.programs.program import OutOfRange
from cleargrad.errors import standing_at

if TYPE_CHECKING:
    from cleargrad.compile.waiting import Run

OFTEN = 2  # times that a trace has ended in the same way when its program is made
LENGTH = "too many calls wait"
UNREPEATED = (LENGTH,)  # ends that come where they come
SHORT = 16  # short traces in a row, from which on calls are made at once
FEW, SMALL = 4, 1 << 14  # calls of a short trace, and bytes of what each makes, if there are several


def compute(run: Run, tree: Tree, make: Callable, why: str) -> Ending | None:
    """Gives every tensor that waits its value, and writes what is to be written: by a program, which it returns, or
    without one."""
    living = [(slot, tensor) for slot, reference in run.made if (tensor := reference()) is not None]
    alive = tuple(sorted({slot for slot, _ in living}))
    endings = run.at.endings
    ending = endings.get(alive, 0)
    if isinstance(ending, Ending) and (ending.gone or ending.failure is not None):
        tree.drop(ending)
        endings[alive] = ending = ending.failure or 0
    if tree.ends is not None:
        tree.note(why, len(run.steps), ending)
    if isinstance(ending, Ending) and ending.program is not None:
        try:
            if ending.run(run, living):
                return ending
        except OutOfRange:
            pass  # call by call, the one that fails says which tensor and line it is
    del living
    before = mode.set(waiter=None, recorder=None, observer=None, autocast=None, grad=False, inference=False)
    try:
        one_by_one(run)
        tree.alone += 1
        if isinstance(ending, int):
            endings[alive] = ending + 1
            if ending + 1 >= OFTEN and why not in UNREPEATED:
                endings[alive] = made = ending_of(run, alive, make)
                if isinstance(made, Ending):
                    tree.keep(made)
    finally:
        mode.set(**before)
    return None


def is_short(steps: list[Step]) -> bool:
    """Whether single calls compute a trace sooner than a program that has to be found first."""
    if not 0 < len(steps) <= FEW or not all(type(step.act) is Called for step in steps):
        return False
    forms = [form for step in steps for form in step.forms if form is not None]
    return len(steps) == 1 or all(form.nbytes <= SMALL for form in forms)


def one_by_one(run: Run) -> None:
    """Makes all calls in order, as an eager program does."""
    side = run.side
    holders: dict[int, list] = {}
    for made, reference in run.made:
        holders.setdefault(made, []).append(reference)
    arrays: list[Any] = [None if x is None else run.array(k) for k, x in enumerate(run.tensors)]
    last = last_uses(run.steps)
    numbers = iter(run.numbers)
    for position, step in enumerate(run.steps):
        act: Any = step.act
        operands = [Fixed(next(numbers)) if x is FREE else x for x in step.given]
        if isinstance(act, Updated):
            act.step_on(
                [x.value if isinstance(x, Fixed) else tensor_at(run, holders, arrays, x) for x in operands]
            )
            continue
        given = [x.value if isinstance(x, Fixed) else arrays[x] for x in operands]
        with standing_at(step.place):
            try:
                results = arrays_of(act.run(given, side))
            except MemoryError as failure:
                raise shortage(act.name, failure, given) from failure
        for slot, array, form in zip(step.outs, results, step.forms, strict=True):
            if slot is None:
                continue
            if act.shows is None:
                array = side.laid_out(array, form)
            arrays[slot] = array
            for reference in holders.get(slot, ()):
                tensor = reference()
                if tensor is not None:
                    # A view of what was there looks into that very memory, also where a copy of it was read.
                    side.give(tensor, array if form is not None else tensor._form)
        for used in last.get(position, ()):
            arrays[used] = None


def tensor_at(run: Run, holders: dict[int, list], arrays: list, slot: int) -> Tensor:
    """The tensor itself, or one with its value if it is gone."""
    if run.tensors[slot] is not None:
        return run.tensors[slot]  # type: ignore[return-value]
    found = next((tensor for ref in holders.get(slot, ()) if (tensor := ref()) is not None), None)
    return run.side.wrap(arrays[slot]) if found is None else found


def last_uses(steps: list[Step]) -> dict[int, list[int]]:
    """By position in a trace: the slots that no later step needs."""
    last: dict[int, int] = {}
    for position, step in enumerate(steps):
        last.update({slot: position for slot in (*step.given, *step.outs) if isinstance(slot, int)})
    found: dict[int, list[int]] = {}
    for used, position in last.items():
        found.setdefault(position, []).append(used)
    return found
