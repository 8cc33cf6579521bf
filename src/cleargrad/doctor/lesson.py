"""A watch that takes notes for a lesson: the graph of the first step, and what each call changed in a few values.

Used by `cleargrad explain`. Beside what every session does, it looks at gradients and weights before and after each
event of the first steps. Only plain numbers are kept. Read next: reports/as_lesson.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from cleargrad.doctor.events import (
    BackwardEnd,
    Clip,
    Event,
    GradWrite,
    SchedulerStep,
    Skip,
    Step,
    StepBegin,
    Unscale,
    Zero,
)
from cleargrad.doctor.graph import Calls, Graph, read
from cleargrad.doctor.session import Session

STEPS = 2  # that are told in full
MOST_NOTES = 24
SHOWN = 3  # parameters whose values are shown
ELEMENTS = 3  # of each
KINDS = (BackwardEnd, Zero, Clip, Unscale, GradWrite, StepBegin, Step, Skip, SchedulerStep)


@dataclass(slots=True)
class Values:
    """A few elements of a parameter and of its gradient, which may be None."""

    parameter: int
    weight: list[float]
    gradient: list[float] | None


@dataclass(slots=True)
class Look:
    """How things were at one moment."""

    values: list[Values]
    gradients: int  # parameters that have one
    memory: int  # bytes of all gradients


@dataclass(slots=True)
class Note:
    """An event, with how things were before and after it."""

    event: Event
    before: Look
    after: Look
    rates: list[float]  # learning rates of the optimizer, if it is one's step
    state: dict[str, int]  # step: what the optimizer keeps for itself, by name, in bytes

    def pairs(self) -> list[tuple[Values, Values]]:
        """The values of each parameter before and after, of those that were there both times."""
        before = {values.parameter: values for values in self.before.values}
        return [(before[new.parameter], new) for new in self.after.values if new.parameter in before]


class Lesson(Session):
    """A session that also takes notes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.notes: list[Note] = []
        self.graph: Graph | None = None
        self.last: Look | None = None
        self.chosen: list[int] = []
        self.paths: dict[int, str] = {}  # of modules, by identity, during the first step
        self.calls = Calls(self.path_of)
        self.handles: list[Any] = []

    def attach(self, *objects: Any) -> Self:
        self.rules.listen(KINDS, self.take_note)
        super().attach(*objects)
        self.observer.show_graph = self.draw
        hooks = self.observer.part("nn.modules.module")
        self.handles = [
            hooks.register_module_forward_pre_hook(lambda module, inputs: self.calls.begin(module)),
            hooks.register_module_forward_hook(lambda module, inputs, output: self.calls.end(inputs, output)),
        ]
        return self

    def restore(self) -> None:
        self.forget_calls()
        super().restore()

    def forget_calls(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles = []
        self.calls = Calls(self.path_of)

    # The graph ---------------------------------------------------------------------------------------------

    def draw(self, root: Any) -> None:
        """Before the first backward pass: the graph that it is about to walk."""
        self.graph = read(root, self.calls, self.leaf_name, str(self.engine))
        self.forget_calls()
        self.observer.show_graph = None
        if self.last is None:
            self.last = self.look()

    def leaf_name(self, node: Any) -> str | None:
        """The name of the leaf that a node adds to; None for a node that is no leaf's."""
        tensor = getattr(node, "variable", None)
        if tensor is None:
            return None
        number = self.registry.parameter_numbers.by_id.get(id(tensor))
        return "a leaf" if number is None else self.registry.name(number)

    def path_of(self, module: Any) -> str | None:
        if id(module) not in self.paths:
            for root in self.registry.roots():
                self.paths |= {id(each): path for path, each in root.named_modules()}
        return self.paths.get(id(module))

    # Notes -------------------------------------------------------------------------------------------------

    def take_note(self, event: Any) -> None:
        if event.step > STEPS or len(self.notes) >= MOST_NOTES:
            return
        before, self.last = self.last, self.look()
        if isinstance(event, StepBegin):
            return  # looked at only to know what the step changes
        step = isinstance(event, Step)
        self.notes.append(
            Note(
                event,
                self.last if before is None else before,
                self.last,
                self.rates(event.optimizer) if isinstance(event, (Step, SchedulerStep)) else [],
                self.state(event.optimizer) if step else {},
            )
        )

    def look(self) -> Look:
        tensors = [(record.number, record.ref()) for record in self.registry.parameters]
        alive = [(number, tensor) for number, tensor in tensors if tensor is not None and not tensor.is_meta]
        trained = [number for number, tensor in alive if tensor.requires_grad]
        if not self.chosen or not set(self.chosen).intersection(trained):
            self.chosen = choose(trained)
        gradients = [tensor.grad for _, tensor in alive if tensor.grad is not None]
        return Look(
            [
                Values(number, few(tensor), few(tensor.grad))
                for number, tensor in alive
                if number in self.chosen
            ],
            len(gradients),
            sum(gradient.nbytes for gradient in gradients if not gradient.is_sparse),
        )

    def rates(self, number: int | None) -> list[float]:
        optimizer = None if number is None else self.registry.optimizers[number].ref()
        groups = [] if optimizer is None else optimizer.param_groups
        return list(dict.fromkeys(float(group["lr"]) for group in groups if "lr" in group))

    def state(self, number: int) -> dict[str, int]:
        """What an optimizer remembers from step to step."""
        optimizer = self.registry.optimizers[number].ref()
        sizes: dict[str, int] = {}
        for kept in () if optimizer is None else optimizer.state.values():
            for name, value in kept.items():
                if value is not None:
                    sizes[str(name)] = sizes.get(str(name), 0) + int(getattr(value, "nbytes", 0))
        return sizes


def choose(numbers: list[int]) -> list[int]:
    """The first parameter, the last, and one from the middle."""
    return sorted({numbers[0], numbers[len(numbers) // 2], numbers[-1]})[:SHOWN] if numbers else []


def few(tensor: Any) -> Any:
    if tensor is None or tensor.is_sparse:
        return None
    return [float(value) for value in tensor.detach().reshape(-1)[:ELEMENTS].tolist()]
