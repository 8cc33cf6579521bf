"""The calls that every training step makes, watched: backward, zero_grad and an optimizer's step.

They are made thousands of times, mostly as the round before has made them (repeats.py). So a call that is the
expected one is counted right here, with a few comparisons and no further call; every other goes to the observer.
Read next: hooks.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cleargrad.doctor.repeats import LEAST_COUNTED

Hook = Callable[[Any, tuple, dict], None]


def watched_backward(watch: Any, backward: Callable) -> Callable:
    """autograd.backward, with `backward_begin` before and `backward_end` after it."""
    begin, end, tensor, filled = watch.backward_begin, watch.backward_end, watch.tensor, watch.filled
    compiling, traced = watch.is_compiling, watch.is_traced

    @functools.wraps(backward)
    def watched(
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: Any = None,
        create_graph: bool = False,
        grad_variables: Any = None,
        inputs: Any = None,
        **others: Any,
    ) -> Any:
        expected = None if traced() else watch.expected
        if (
            expected is not None
            and expected.root is type(tensors)
            and not (retain_graph or create_graph or filled)
            and (not expected.has_loss or is_number(tensors))
        ):
            watch.expected = expected.following
        elif compiling():
            return backward(
                tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs, **others
            )
        else:
            if not isinstance(tensors, tensor):
                tensors = tuple(tensors)  # a generator would be empty after the first look
            begin(tensors, bool(retain_graph), create_graph)
        try:
            if others:
                result = backward(
                    tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs, **others
                )
            else:  # a call with ** takes longer
                result = backward(tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs)
        except BaseException:
            end(True)
            raise
        ending = watch.expected
        if ending is not None and ending.fills == list(map(id, filled)):
            filled.clear()
            watch.expected = ending.following
        else:
            end(False)
        return result

    return watched


def is_number(loss: Any) -> bool:
    """Whether a loss is a single number, neither infinite nor NaN."""
    try:
        value = loss.item()
        return value - value == 0
    except Exception:  # more than one element, or none: not for us to judge
        return False


def watched_zero(watch: Any, tell: Callable[[Any, bool], None], original: Callable) -> Callable:
    """zero_grad of optimizers or modules, with `tell(owner, to_none)` after it."""
    compiling, traced, filled = watch.is_compiling, watch.is_traced, watch.filled

    @functools.wraps(original)
    def zero_grad(owner: Any, set_to_none: bool = True, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            result = original(owner, set_to_none, *args, **kwargs)
        else:  # a call with ** takes longer
            result = original(owner, set_to_none)
        expected = None if traced() else watch.expected
        if (
            expected is not None
            and expected.clears == id(owner)
            and expected.to_none == set_to_none
            and not filled
        ):
            watch.expected = expected.following
        elif not compiling():
            tell(owner, bool(set_to_none))
        return result

    return zero_grad


def step_hooks(watch: Any) -> tuple[Hook, Hook]:
    """Hooks before and after the steps of all optimizers: `step_begin` and `step_end`."""
    begin, end, filled = watch.step_begin, watch.step_end, watch.filled
    compiling, traced = watch.is_compiling, watch.is_traced

    def step_begins(optimizer: Any, args: tuple, kwargs: dict) -> None:
        expected = None if traced() else watch.expected
        if (
            expected is not None
            and expected.begins == id(optimizer)
            and len(args) == 1
            and not kwargs
            and not filled
        ):
            watch.expected = expected.following
        elif not compiling():
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            begin(optimizer, callable(closure))

    def step_ends(optimizer: Any, args: tuple, kwargs: dict) -> None:
        expected = None if traced() else watch.expected
        if expected is not None and expected.ends == id(optimizer) and not filled:
            following = expected.following
            if following is not None:
                watch.expected = following
                return
            counted = watch.counted + 1
            if counted & LEAST_COUNTED != LEAST_COUNTED:  # else it may be time to look at a round in full
                watch.counted = counted
                watch.expected = watch.first
                return
        if not compiling():
            end(optimizer)

    return step_begins, step_ends
