"""What the doctor hears: one small vocabulary for everything that happens to gradients, on every engine.

An event says when (`number`, `step`), where in the user's program (`place`) and to which parameters, which are
small integers (see registry.py), never tensors. Events are made by the observers and read by ledger.py, then by the
rules. Read next: places.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from cleargrad.doctor.places import Place

Ids = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Event:
    """`number` counts events from 1; `step` is the optimizer step that the event leads to or belongs to, from 1."""

    number: int
    step: int
    place: Place | None  # None when no line of the user's is on the stack, or a change was noticed later


# Gradients are filled --------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Backward(Event):
    """A backward pass begins; what it adds follows as Accumulate events that name its number."""

    retain_graph: bool
    create_graph: bool
    scaler: int | None  # the scaler whose `scale` made the loss, if one did
    root: str | None  # the class of the node that made the loss, such as "DivBackward0"
    graphs_alive: int  # graphs of earlier backward passes that something still holds
    parameters: Ids = ()  # what it has added to so far; the ledger fills this in
    loss: float | None = None  # its value, where it is a number that need not be waited for
    not_finite: str | None = None  # the first op whose value was not finite, where the loss is not
    infinite_slope: str | None = None  # the op whose slope is infinite, where that was looked at
    plain_mean: bool = False  # the loss is an average over a batch that nothing divides any further
    used: bool = False  # a step has used some of it; the ledger says so
    for_parameters_only: bool = False  # it keeps its graph, and nobody asked for gradients of anything else


@dataclass(slots=True, eq=False)
class Accumulate(Event):
    """A backward pass has added to `.grad` of these parameters."""

    backward: Backward
    parameters: Ids


@dataclass(slots=True, eq=False)
class BackwardEnd(Event):
    backward: Backward
    failed: bool  # it raised an exception


@dataclass(slots=True, eq=False)
class Grad(Event):
    """A call of autograd.grad, which adds to no `.grad`."""

    create_graph: bool


# Gradients are changed or cleared --------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Zero(Event):
    """Gradients became None or zeros. `by` is "optimizer", "module" or "hand"; by hand the place is not known."""

    parameters: Ids
    by: str
    owner: int | None  # the optimizer's or the module's number
    to_none: bool
    weights: object = (
        None  # where contributions were dropped unused: what the weights were then (Noticing.weights_of)
    )
    unread: bool = (
        False  # the program is known not to have read a gradient since the last pass that kept its graph
    )


@dataclass(slots=True, eq=False)
class GradWrite(Event):
    """The program wrote `.grad` itself, some time before this event. `how` is "assigned" or "edited" (in place)."""

    parameters: Ids
    how: str


@dataclass(slots=True, eq=False)
class Clip(Event):
    """`how` is "norm" or "value"; `with_gradient` are those of the given parameters that had a gradient."""

    how: str
    limit: float
    parameters: Ids
    with_gradient: Ids
    given: int  # how many tensors were given, known or not: 0 for an exhausted generator


# Gradients are used ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class StepBegin(Event):
    optimizer: int
    closure: bool


@dataclass(slots=True, eq=False)
class Step(Event):
    """An optimizer has stepped. With a closure, the gradients are those that the closure left."""

    optimizer: int
    with_gradient: Ids
    without_gradient: Ids  # trainable, but without a gradient
    frozen: Ids  # those with a gradient that require none any more: the step changes them all the same
    closure: bool
    scaler: int | None  # the scaler that made the step
    count: int  # steps of this optimizer so far, this one included


@dataclass(slots=True, eq=False)
class HandStep(Event):
    """Parameters of a program without optimizers have moved along the gradients that they still have. The place is
    where a gradient was last read."""

    with_gradient: Ids


@dataclass(slots=True, eq=False)
class Skip(Event):
    """A scaler found infinite gradients and left the step out."""

    optimizer: int
    scaler: int
    with_gradient: Ids


@dataclass(slots=True, eq=False)
class ParameterWrite(Event):
    """Parameters changed outside of every step, some time before this event (copied, loaded, moved by hand)."""

    parameters: Ids


@dataclass(slots=True, eq=False)
class Statistics(Event):
    """Sizes at a step, taken now and then: norms of gradients and weights, and how far the step moved them."""

    optimizer: int
    parameters: Ids
    gradient_norms: tuple[float, ...]  # before the step, after clipping and unscaling; may be inf or nan
    weight_norms: tuple[float, ...]  # before the step
    moved: tuple[bool, ...]  # whether the step changed any of the elements that were compared
    update_norms: tuple[float, ...]  # how far the step moved the weights, judged by those elements


# Loss scaling ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class ScalerMade(Event):
    scaler: int


@dataclass(slots=True, eq=False)
class Scale(Event):
    """A loss was multiplied by the scaler's scale."""

    scaler: int


@dataclass(slots=True, eq=False)
class Unscale(Event):
    """The program called `scaler.unscale_(optimizer)` itself: gradients have their true size from here on."""

    scaler: int
    optimizer: int


@dataclass(slots=True, eq=False)
class ScalerStep(Event):
    """`scaler.step(optimizer)` begins; a Step or a Skip follows."""

    scaler: int
    optimizer: int


@dataclass(slots=True, eq=False)
class ScalerUpdate(Event):
    scaler: int


# Around the step -------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class OptimizerMade(Event):
    optimizer: int
    parameters: Ids


@dataclass(slots=True, eq=False)
class GroupAdded(Event):
    """Parameters were given to an optimizer that existed already."""

    optimizer: int
    parameters: Ids


@dataclass(slots=True, eq=False)
class SchedulerStep(Event):
    scheduler: int
    kind: str  # its class
    optimizer: int | None


@dataclass(slots=True, eq=False)
class EpochBegin(Event):
    """A pass over a DataLoader begins."""

    loader: int


@dataclass(slots=True, eq=False)
class EpochEnd(Event):
    """A DataLoader has handed out its last batch; a pass that the program breaks off has no end."""

    loader: int
    batches: int


@dataclass(slots=True, eq=False)
class End(Event):
    """The watched run is over: rules that need the whole story speak now."""

    failed: bool  # the program raised an exception
    error: str | None = None  # its message; the place is then the user's line that raised it


# Modules and parameters ------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class ModeChange(Event):
    """`module.train()` or `module.eval()` on the module that the program named; those below follow it."""

    module: int
    training: bool


@dataclass(slots=True, eq=False)
class Forward(Event):
    """Modules that ran with gradients on since the last backward pass; noted in the first steps only.

    `evaluating` are those of them that were in eval mode, `unrecorded` those that ran with gradients off.
    """

    modules: Ids
    evaluating: Ids
    unrecorded: Ids = ()


@dataclass(slots=True, eq=False)
class Cut(Event):
    """A tensor with a history was taken out of its graph (`how` is "detach", "data", "tensor", "item"), or a new
    leaf was made that requires a gradient ("leaf"), while gradients were on and between the forward calls that
    Forward tells of. `after` is the module that began to run last, if any did."""

    how: str
    after: int | None
    behind: Ids = ()  # the parameters that it depends on, or the one that it is, as in `layer.weight.data`


@dataclass(slots=True, eq=False)
class Freeze(Event):
    """`requires_grad_(flag)` on a module or a parameter, or `requires_grad = flag` set on a module, where it does
    nothing. `effective` is False for the latter."""

    parameters: Ids
    flag: bool
    effective: bool


@dataclass(slots=True, eq=False)
class Registered(Event):
    """A module got a parameter under a name; `replaced` is the one that it had there before."""

    module: int
    name: str
    parameter: int
    replaced: int | None


@dataclass(slots=True, eq=False)
class ModuleReplaced(Event):
    """A module got another submodule under a name that it had; `old` and `new` are the parameters of the two."""

    module: int
    name: str
    old: Ids
    new: Ids


@dataclass(slots=True, eq=False)
class Copied(Event):
    """A parameter was deep-copied; the copy is another parameter, which no optimizer holds."""

    parameter: int
    copy: int
