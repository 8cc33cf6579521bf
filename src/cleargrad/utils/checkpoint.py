"""torch.utils.checkpoint: activations that are computed again for backward instead of kept.

Without `use_reentrant`, saved-tensor hooks keep a placeholder for every value the graph wants to save; the
first one asked for in backward runs the function again and fills all of them. With it, the function is one
node whose backward runs it again. Either way random numbers are drawn from the same state. Read next:
utils/data/__init__.py.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cleargrad import autograd
from cleargrad.autograd.function import Function
from cleargrad.autograd.modes import enable_grad, no_grad, saved_tensors_hooks
from cleargrad.core import philox
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.random import get_rng_state, set_rng_state

NAME = "checkpoint"


class CheckpointError(RuntimeError):
    """The function did not do the same when it ran again."""


def noop_context_fn() -> tuple:
    """Nothing around the first run, nothing around the second."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The GPUs that the arguments lie on and the states of their generators: none."""
    return [], []


def set_device_states(devices: list[int], states: list[Tensor], *, device_type: str | None = None) -> None:
    """Sets the states of GPUs' generators, of which there are none."""


class Conditions:
    """What both runs of a function have in common: random numbers and autocast."""

    def __init__(self, preserve_rng_state: bool) -> None:
        self.rng = (get_rng_state(), philox.states()) if preserve_rng_state else None
        self.autocast = mode.autocast

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        before = mode.set(autocast=self.autocast)
        now = None if self.rng is None else (get_rng_state(), philox.states())
        try:
            turn_back(self.rng)
            yield
        finally:
            mode.set(**before)
            turn_back(now)


def turn_back(rng: tuple | None) -> None:
    """Makes the default generators of all devices continue from saved states."""
    if rng is not None:
        set_rng_state(rng[0])
        philox.restore(rng[1])


# Without reentrance ----------------------------------------------------------------------------------------


class Place:
    """Stands in the graph for a saved value; holds the value from its recomputation on."""

    __slots__ = ("__weakref__", "kind", "shape", "value")

    def __init__(self, tensor: Tensor) -> None:
        self.shape, self.kind = tensor.shape, tensor.dtype
        self.value: Tensor | None = None

    def fits(self, tensor: Tensor) -> bool:
        return self.shape == tensor.shape and self.kind is tensor.dtype


class Region:
    """One checkpointed call: how to run it again, and the places its values belong to.

    Places are referred to weakly: those of nodes that were already used and freed need no value.
    """

    def __init__(self, call: Callable, conditions: Conditions, context: Any, checks: bool) -> None:
        self.call = call
        self.conditions = conditions
        self.context = context
        self.checks = checks
        self.places: list[weakref.ref[Place]] = []

    def pack(self, tensor: Tensor) -> tuple[Region, Place]:
        place = Place(tensor)
        self.places.append(weakref.ref(place))
        return self, place

    @staticmethod
    def unpack(packed: tuple[Region, Place]) -> Tensor:
        region, place = packed
        if place.value is None:
            region.run_again()
        if place.value is None:
            raise mismatch("fewer tensors were saved when the function ran again")
        return place.value

    def run_again(self) -> None:
        count = 0

        def fill(tensor: Tensor) -> None:
            nonlocal count
            if count >= len(self.places):
                raise mismatch("more tensors were saved when the function ran again")
            place = self.places[count]()
            count += 1
            if place is None:
                return
            if self.checks and not place.fits(tensor):
                facts = {"first": f"{tuple(place.shape)} {place.kind}", "again": tensor}
                raise mismatch("a saved tensor differs from that of the first run", **facts)
            place.value = tensor.detach()

        with self.conditions.restored(), enable_grad(), self.context, saved_tensors_hooks(fill, refuse):
            self.call()


def refuse(packed: Any) -> Tensor:
    raise error(RuntimeError, NAME, "backward() inside a checkpointed function is not possible")


def mismatch(rule: str, **facts: Any) -> Exception:
    fix = "the function must do the same twice; determinism_check='none' switches this check off"
    return error(CheckpointError, NAME, rule, fix=fix, **facts)


def checkpoint_by_hooks(
    call: Callable, preserve_rng_state: bool, context_fn: Callable, determinism_check: str
) -> Any:
    if determinism_check not in ("default", "none"):
        rule = f"determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        raise error(ValueError, NAME, rule)
    first, second = context_fn()
    region = Region(call, Conditions(preserve_rng_state), second, determinism_check == "default")
    if not mode.grad:
        with first:
            return call()
    with first, saved_tensors_hooks(region.pack, Region.unpack):
        return call()


# With reentrance -------------------------------------------------------------------------------------------


def detach_variable(inputs: tuple) -> tuple:
    """The inputs as leaves, with the same wish for gradients."""
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs
    )  # fmt: skip


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns when no input wants a gradient: then the function gets none at all."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        text = "None of the inputs have requires_grad=True. Gradients will be None"
        warnings.warn(text, stacklevel=4)


class CheckpointFunction(Function):
    """A function as one node, whose backward runs it again with a graph of its own."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.conditions = Conditions(preserve_rng_state)
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.numbers = [k for k, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.save_for_backward(*[x for x in args if isinstance(x, Tensor)])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        args = list(ctx.others)
        for number, tensor in zip(ctx.numbers, ctx.saved_tensors, strict=True):
            args[number] = tensor
        inputs = detach_variable(tuple(args))
        with ctx.conditions.restored(), enable_grad():
            outputs = ctx.run_function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (out, g)
            for out, g in zip(outputs, grads, strict=True)
            if isinstance(out, Tensor) and out.requires_grad
        ]
        if not pairs:
            rule = "none of output has requires_grad=True, this checkpoint() is not necessary"
            raise error(RuntimeError, NAME, rule)
        autograd.backward([out for out, _ in pairs], [g for _, g in pairs])
        return None, None, *[x.grad if isinstance(x, Tensor) else None for x in inputs]


def recorded(function: Callable, args: tuple, kwargs: dict, use_reentrant: bool) -> Any:
    """A program decides by itself what it keeps: recorded, the function is called as it is."""
    wanted = any(isinstance(x, Tensor) and x.requires_grad for x in args)
    with contextlib.nullcontext() if wanted or not use_reentrant else no_grad():
        return function(*args, **kwargs)


# The functions ---------------------------------------------------------------------------------------------


def chosen_form(use_reentrant: bool | None, where: str, threat: str) -> bool:
    if use_reentrant is not None:
        return use_reentrant
    warnings.warn(
        f"{where}: the use_reentrant parameter should be passed explicitly. {threat} use_reentrant=False is "
        "recommended, but if you need to preserve the current default behavior, you can pass "
        "use_reentrant=True. Refer to docs for more details on the differences between the two variants.",
        stacklevel=3,
    )
    return True


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), whose intermediate values are computed again in backward."""
    use_reentrant = chosen_form(
        use_reentrant,
        "torch.utils.checkpoint",
        "Starting in PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception.",
    )
    preserve = kwargs.pop("preserve_rng_state", True)
    if mode.recorder is not None:
        return recorded(function, args, kwargs, use_reentrant)
    if not use_reentrant:
        return checkpoint_by_hooks(lambda: function(*args, **kwargs), preserve, context_fn, determinism_check)
    if kwargs:
        raise error(ValueError, NAME, "Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        rule = "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        raise error(ValueError, NAME, rule)
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A sequence of modules in segments, each but the last a checkpoint."""
    use_reentrant = chosen_form(
        use_reentrant,
        "torch.utils.checkpoint.checkpoint_sequential",
        "In version 2.9 we will raise an exception if use_reentrant is not passed.",
    )
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise error(ValueError, "checkpoint_sequential", "Unexpected keyword arguments: " + ",".join(kwargs))
    modules = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def segment(start: int, stop: int) -> Callable:
        def forward(value: Any) -> Any:
            for module in modules[start:stop]:
                value = module(value)
            return value

        return forward

    size = len(modules) // segments
    for number in range(segments - 1):
        step = segment(number * size, (number + 1) * size)
        input = checkpoint(step, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return segment((segments - 1) * size, len(modules))(input)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Accepted; a second run always goes to its end."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Accepted; errors say what differed in any case."""
    yield
