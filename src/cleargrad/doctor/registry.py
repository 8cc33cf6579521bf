"""Who is who: parameters, modules, optimizers, scalers, schedulers and loaders as small integers.

Nothing here keeps a tensor, module or optimizer alive: records hold weak references, and outlive what they
describe. Names are worked out when a finding or a report asks for them. Read next: observers/gradients.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

from cleargrad.doctor.places import Place


class Parameter:
    """What is known of one parameter. `grad_id` and `grad_version` are its `.grad` as it was last seen."""

    __slots__ = (
        "grad_id",
        "grad_version",
        "hooked",
        "modules",
        "name",
        "number",
        "numel",
        "optimizers",
        "place",
        "received",
        "ref",
        "replaces",
        "shape",
        "steps",
        "version",
        "written",
    )

    def __init__(self, number: int, tensor: Any, place: Place | None) -> None:
        self.number = number
        self.ref: Callable[[], Any] = weakref.ref(tensor)
        self.name: str | None = None
        self.shape = tuple(tensor.shape)
        self.numel = tensor.numel()
        self.place = place  # where it was first seen
        self.modules: set[int] = set()  # that hold it
        self.optimizers: set[int] = set()  # that hold it
        self.replaces: tuple[int, ...] = ()  # parameters that it is a copy of, or took the place of
        self.received = 0  # backward passes that added to its gradient
        self.steps = 0  # optimizer steps that used a gradient of it
        self.written = 0  # times that it was found changed outside of every step
        self.grad_id = 0  # 0 stands for None
        self.grad_version = 0
        self.version = tensor._version
        self.hooked = False


class Optimizer:
    """What is known of one optimizer."""

    __slots__ = (
        "found",
        "kind",
        "known",
        "measured",
        "number",
        "parameters",
        "place",
        "ref",
        "skips",
        "steps",
    )

    def __init__(self, number: int, optimizer: Any, place: Place | None) -> None:
        self.number = number
        self.ref: Callable[[], Any] = weakref.ref(optimizer)
        self.kind = type(optimizer).__name__
        self.place = place  # where it was made
        self.parameters: list[Parameter] = []
        self.known: list[
            tuple
        ] = []  # per group, when `parameters` was written: its length, its last parameter
        self.found: tuple[tuple[int, ...], ...] = (
            (),
            (),
            (),
        )  # with, without a gradient, frozen: at the last look
        self.steps = 0
        self.measured = 0  # the step whose sizes were last taken
        self.skips = 0


class Numbers:
    """Gives objects numbers from 0, by identity, without keeping them alive."""

    def __init__(self) -> None:
        self.by_id: dict[int, int] = {}
        self.refs: list[Callable[[], Any]] = []

    def of(self, thing: Any) -> int:
        number = self.by_id.get(id(thing))
        return self.add(thing) if number is None else number

    def add(self, thing: Any) -> int:
        key, number = id(thing), len(self.refs)

        def forget(_: Any, by_id: dict[int, int] = self.by_id) -> None:
            if by_id.get(key) == number:
                del by_id[key]

        self.refs.append(weakref.ref(thing, forget))
        self.by_id[key] = number
        return number

    def alive(self) -> Iterator[tuple[int, Any]]:
        for number, ref in enumerate(self.refs):
            thing = ref()
            if thing is not None:
                yield number, thing


class Registry:
    """All numbers of one watched run."""

    def __init__(self) -> None:
        self.parameter_numbers = Numbers()
        self.optimizer_numbers = Numbers()
        self.modules = Numbers()
        self.scalers = Numbers()
        self.schedulers = Numbers()
        self.loaders = Numbers()
        self.parameters: list[Parameter] = []
        self.optimizers: list[Optimizer] = []
        self.module_kinds: list[str] = []
        self.explained: set[int] = set()  # parameters of which a rule has said why they get no gradient

    # Numbers -----------------------------------------------------------------------------------------------

    def parameter(self, tensor: Any, place: Place | None = None) -> Parameter:
        """The record of a parameter, made when it is first seen."""
        number = self.parameter_numbers.by_id.get(id(tensor))
        if number is not None:
            return self.parameters[number]
        record = Parameter(self.parameter_numbers.add(tensor), tensor, place)
        self.parameters.append(record)
        return record

    def optimizer(self, optimizer: Any, place: Place | None = None) -> Optimizer:
        number = self.optimizer_numbers.by_id.get(id(optimizer))
        if number is not None:
            return self.optimizers[number]
        record = Optimizer(self.optimizer_numbers.add(optimizer), optimizer, place)
        self.optimizers.append(record)
        return record

    def module(self, module: Any) -> int:
        number = self.modules.of(module)
        if number == len(self.module_kinds):
            self.module_kinds.append(type(module).__name__)
        return number

    # Names -------------------------------------------------------------------------------------------------

    def name(self, number: int) -> str:
        """The name of a parameter, such as `fc.weight`."""
        record = self.parameters[number]
        if record.name is None:
            self.name_parameters()
        return record.name or self.name_by_optimizer(record)

    def names(self, numbers: Any) -> list[str]:
        return [self.name(number) for number in numbers]

    def name_parameters(self) -> None:
        """Names every parameter that a module holds. A name that two models use gets the model's class in front."""
        taken: dict[str, int] = {record.name: 1 for record in self.parameters if record.name is not None}
        for root in self.roots():
            kind = type(root).__name__
            for path, tensor in root.named_parameters():
                number = self.parameter_numbers.by_id.get(id(tensor))
                if number is None or self.parameters[number].name is not None:
                    continue
                name = path.replace("_orig_mod.", "")
                if name in taken:
                    name = f"{kind}.{name}"
                count = taken[name] = taken.get(name, 0) + 1
                self.parameters[number].name = name if count == 1 else f"{name} ({count})"

    def roots(self) -> list[Any]:
        """Modules that are in no other module."""
        modules = [module for _, module in self.modules.alive()]
        below = {id(child) for module in modules for child in module._modules.values() if child is not None}
        return [module for module in modules if id(module) not in below]

    def name_by_optimizer(self, record: Parameter) -> str:
        for number in sorted(record.optimizers):
            optimizer = self.optimizers[number]
            if record in optimizer.parameters:
                return f"parameter {optimizer.parameters.index(record)} of {optimizer.kind}"
        return f"parameter {record.number}"

    def name_from_variables(self, record: Parameter, variables: dict[str, Any]) -> None:
        """A tensor that no module holds goes by the name of the user's variable."""
        tensor = record.ref()
        for name, value in list(variables.items()):
            if value is tensor:
                record.name = name
                return
