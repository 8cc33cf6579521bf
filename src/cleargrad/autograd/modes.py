"""Switches for the current thread: gradients on or off, inference, anomaly detection, saved-tensor hooks.

Read next: autograd/function.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from cleargrad.core.mode import mode
from cleargrad.errors import error


class Switch:
    """A context manager that changes the mode, and a decorator that does so around every call."""

    changes: dict[str, Any] = {}

    def __enter__(self) -> Any:
        self.before = mode.set(**self.changes)

    def __exit__(self, *exception: object) -> None:
        mode.set(**self.before)

    def __call__(self, function: Callable) -> Callable:
        if inspect.isclass(function):
            function.__init__ = self(function.__init__)  # type: ignore[method-assign]
            return function
        if inspect.isgeneratorfunction(function):
            return self.around_generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def around_generator(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                generator = function(*args, **kwargs)
            step, given = generator.send, None
            while True:
                try:
                    with self.clone():
                        value = step(given)
                except StopIteration as stop:
                    return stop.value
                try:
                    step, given = generator.send, (yield value)
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as thrown:
                    step, given = generator.throw, thrown

        return wrapped

    def clone(self) -> Switch:
        other = type(self).__new__(type(self))
        other.changes = self.changes
        return other


def _usable_without_parentheses(cls: type) -> type:
    """Lets `@no_grad` stand for `@no_grad()`."""
    plain: Any = cls.__new__

    def new(kind: type, function: Callable | None = None) -> Any:
        if function is not None and callable(function):
            return kind()(function)
        return plain(kind)

    cls.__new__ = new  # type: ignore[method-assign,assignment]
    return cls


class Recording(Switch):
    """Turns recording of gradients on or off, the quick way."""

    def __enter__(self) -> None:
        self.was = mode.turn(self.changes["grad"])

    def __exit__(self, *exception: object) -> None:
        mode.turn(self.was)


@_usable_without_parentheses
class no_grad(Recording):
    """No gradients are recorded inside."""

    changes = {"grad": False}

    def __init__(self, function: Callable | None = None):
        pass


@_usable_without_parentheses
class enable_grad(Recording):
    """Gradients are recorded inside, also within no_grad."""

    changes = {"grad": True}

    def __init__(self, function: Callable | None = None):
        pass


class set_grad_enabled(Switch):
    """Turns recording on or off: at once, and until the end of the block when used with `with`."""

    def __init__(self, mode: bool):
        self.wanted = bool(mode)
        self.changes = {"grad": self.wanted}
        self.before = _mode().set(grad=self.wanted)

    def __enter__(self) -> None:
        _mode().set(grad=self.wanted)

    def __call__(self, function: Callable) -> Callable:
        _mode().set(**self.before)  # used as a decorator: only the calls are switched
        return super().__call__(function)

    def clone(self) -> Switch:
        return set_grad_enabled(self.wanted)


def _mode() -> Any:
    return mode


class inference_mode(Switch):
    """Like no_grad, and tensors made inside never take part in autograd."""

    def __new__(cls, mode: bool | Callable = True) -> Any:
        if not isinstance(mode, bool):
            return cls()(mode)
        return super().__new__(cls)

    def __init__(self, mode: bool | Callable = True):
        self.changes = (
            {"inference": bool(mode), "grad": not mode} if mode else {"inference": False, "grad": True}
        )


def is_grad_enabled() -> bool:
    return mode.grad


def is_inference_mode_enabled() -> bool:
    return mode.inference


class set_detect_anomaly(Switch):
    """Turns anomaly detection on or off: backward then names the forward line of a NaN or an error."""

    def __init__(self, mode: bool, check_nan: bool = True):
        self.changes = {"anomaly": mode, "check_nan": check_nan}
        self.before = _mode().set(**self.changes)

    def __enter__(self) -> None:
        pass

    def clone(self) -> Switch:
        return set_detect_anomaly(self.changes["anomaly"], self.changes["check_nan"])


class detect_anomaly(set_detect_anomaly):
    """Anomaly detection for a block."""

    def __init__(self, check_nan: bool = True):
        super().__init__(True, check_nan)


def is_anomaly_enabled() -> bool:
    return mode.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    return mode.check_nan


class saved_tensors_hooks:
    """Inside, `pack(tensor)` takes every tensor saved for backward, and `unpack(packed)` gives it back."""

    refused: str | None = None

    def __init__(self, pack_hook: Callable, unpack_hook: Callable):
        self.pair = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        if self.refused is not None:
            raise error(RuntimeError, "saved_tensors_hooks", self.refused)
        self.before = mode.set(saved_hooks=(*(mode.saved_hooks or ()), self.pair))

    def __exit__(self, *exception: object) -> None:
        mode.set(**self.before)


class disable_saved_tensors_hooks:
    """Inside, entering saved_tensors_hooks raises an error with this message."""

    def __init__(self, error_message: str):
        self.message = error_message

    def __enter__(self) -> None:
        self.before, saved_tensors_hooks.refused = saved_tensors_hooks.refused, self.message

    def __exit__(self, *exception: object) -> None:
        saved_tensors_hooks.refused = self.before


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in main memory, which on the CPU is where they are."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        super().__init__(lambda tensor: tensor, lambda tensor: tensor)


class set_multithreading_enabled:
    """Accepted, as a function and as a context: backward walks in the thread that called it."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def is_multithreading_enabled() -> bool:
    return False
