"""torch.amp.GradScaler: losses are scaled up so that half-precision gradients do not vanish.

Per optimizer and iteration a scaler goes READY -> UNSCALED -> STEPPED, and `update` starts again: a scale that
led to an overflow shrinks, one that has been good for long enough grows. Read next: optim/optimizer.py.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections import abc, defaultdict
from enum import Enum
from typing import Any

import numpy as np

from cleargrad.autograd.modes import no_grad
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.dtype import NARROW
from cleargrad.core.mode import mode, settle
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error
from cleargrad.ops.joining import stack


class OptState(Enum):
    """How far an optimizer is in the current iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def fresh_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


def number(value: float, kind: Any = np.float32) -> Tensor:
    return wrap(np.array(value, kind))


def unscale(grad: Tensor, factor: np.float32) -> bool:
    """Multiplies a gradient in place, and says whether it is finite."""
    data = grad._data
    values = data.astype(np.float32) if data.dtype in NARROW else data
    total = np.add.reduce(
        values, axis=None
    )  # cheaper than a look at each element, but it may overflow itself
    finite = math.isfinite(abs(total)) or bool(np.isfinite(values).all())
    if factor != 1:
        if values is data:
            values *= values.dtype.type(factor)
        else:
            data[...] = values * factor
        grad.bump()
    return finite


def inverse(scale: Tensor) -> Any:
    """One over the scale, divided in double precision."""
    return np.float32(1.0 / float(scale._data))


def unscale_by_calls(grads: list[Tensor], factor: float) -> Tensor:
    """Multiplies gradients in place, wherever they lie and also if they wait; 1 if any was not finite, else 0."""
    with no_grad():
        finite = [grad.isfinite().all() for grad in grads]
        for grad in grads:
            grad.mul_(factor)
        return (~stack(finite).all()).float()


class GradScaler:
    """Scales losses, unscales gradients, and skips steps whose gradients are not finite."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not devices.is_usable("cuda"):
            message = "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling."
            warnings.warn(message, stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise error(AssertionError, "GradScaler", "The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise error(AssertionError, "GradScaler", "The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(fresh_state)
        self._skipped: Any = weakref.WeakKeyDictionary()  # per optimizer: whether its last step was not made

    # Forward -----------------------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """The outputs, a tensor or an iterable of tensors, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._begin()
        if not isinstance(outputs, abc.Iterable):
            raise error(ValueError, "scale", "outputs must be a Tensor or an iterable of Tensors")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled  # type: ignore[call-arg]

    def _begin(self) -> Tensor:
        """The scale as a tensor, made when it is first needed."""
        if self._scale is None:
            self._scale = number(self._init_scale)
            self._growth_tracker = number(self._init_growth_tracker, np.int32)
        return self._scale

    def _begun(self, function: str) -> Tensor:
        if self._scale is None:
            rule = f"Attempted {function} but _scale is None."
            fix = "use scaler.scale(loss or outputs) earlier in the iteration"
            raise error(AssertionError, function, rule, fix=fix)
        return self._scale

    # Backward ----------------------------------------------------------------------------------------------

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer by the scale, so that they can be clipped or looked at."""
        if not self._enabled:
            return
        scale = self._begun("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            rule = "unscale_() has already been called on this optimizer since the last update()."
            raise error(RuntimeError, "unscale_", rule)
        if state["stage"] is OptState.STEPPED:
            raise error(RuntimeError, "unscale_", "unscale_() is being called after step().")
        factor = inverse(scale)
        state["found_inf_per_device"] = self._unscale_grads(optimizer, factor, allow_fp16=False)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads(self, optimizer: Any, factor: Any, allow_fp16: bool) -> dict:
        """Multiplies all gradients; the answer says, by device, whether any was not finite."""
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not allow_fp16 and any(grad.dtype is dtypes.float16 for grad in grads):
            rule = "Attempting to unscale FP16 gradients."
            fix = "keep the parameters in float32, and use autocast for the forward pass"
            raise error(ValueError, "unscale_", rule, fix=fix)
        if not grads:
            return {}
        if mode.waiter is not None or any(grad.device is not devices.CPU for grad in grads):
            sides = {grad.device: [each for each in grads if each.device == grad.device] for grad in grads}
            return {side: unscale_by_calls(some, float(factor)) for side, some in sides.items()}
        finite = [unscale(grad, factor) for grad in grads]  # every gradient, also after the first infinity
        return {devices.CPU: number(0.0 if all(finite) else 1.0)}

    def _check_inf_per_device(self, optimizer: Any) -> dict:
        """Looks for gradients that are not finite, and leaves them as they are."""
        self._begun("_check_inf_per_device")
        found = self._unscale_grads(optimizer, np.float32(1), allow_fp16=True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscales gradients if that has not been done, and steps the optimizer if all of them are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            rule = "Closure use is not currently supported if GradScaler is enabled."
            raise error(RuntimeError, "step", rule)
        self._begun("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise error(RuntimeError, "step", "step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_with_scale(optimizer, state, args, kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            self._note(optimizer, state)
            result = None if self.step_was_skipped(optimizer) else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _note(self, optimizer: Any, state: dict[str, Any]) -> None:
        """Remembers whether a step must be skipped."""
        found = state["found_inf_per_device"]
        if not found:
            rule = "No inf checks were recorded for this optimizer."
            raise error(AssertionError, "step", rule, fix="call backward() on a loss of its parameters first")
        first, *others = found.values()
        self._skipped[optimizer] = any(part.item() for part in (first, *others)) if others else first

    def _step_with_scale(self, optimizer: Any, state: dict[str, Any], args: tuple, kwargs: dict) -> Any:
        """For optimizers that unscale and skip by themselves: they find what they need in two attributes."""
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
        self._note(optimizer, state)
        given = getattr(optimizer, "grad_scale", None)
        unscaled = state["stage"] is OptState.UNSCALED
        optimizer.grad_scale = given if unscaled else self._begin() * (1 if given is None else given)
        optimizer.found_inf = number(float(self.step_was_skipped(optimizer)))
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def step_was_skipped(self, optimizer: Any) -> bool:
        """Whether the last `step` of an optimizer was not made, because a gradient was not finite."""
        return self._enabled and optimizer in self._skipped and bool(self._skipped[optimizer])

    # The scale ---------------------------------------------------------------------------------------------

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Ends the iteration: the scale shrinks after a skipped step and grows after many good ones."""
        if not self._enabled:
            return
        scale = self._begun("update")
        if new_scale is not None:
            settle()
            scale._data[...] = checked_scale(new_scale, self._device)
        else:
            states = self._per_optimizer_states.values()
            found = [part for state in states for part in state["found_inf_per_device"].values()]
            if not found:
                raise error(AssertionError, "update", "No inf checks were recorded prior to update.")
            settle()
            self._adapt(any(part.item() for part in found))
        self._per_optimizer_states = defaultdict(fresh_state)

    def _adapt(self, overflowed: bool) -> None:
        scale, tracker = self._begin()._data, self._growth_tracker._data  # type: ignore[union-attr]
        if overflowed:
            scale[...] = float(scale) * self._backoff_factor
            tracker[...] = 0
            return
        tracker += 1
        if tracker == self._growth_interval:
            grown = np.float64(float(scale) * self._growth_factor).astype(np.float32)
            if np.isfinite(grown):
                scale[...] = grown
            tracker[...] = 0

    def _get_scale_async(self) -> Tensor | None:
        return self._scale

    def get_scale(self) -> float:
        """The scale, or 1.0 when scaling is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self) -> bool:
        return self._enabled

    # Saving ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The scale and its rules; empty when scaling is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a saved scale."""
        if not self._enabled:
            return
        if not state_dict:
            rule = (
                "The source state dict is empty, possibly because it was saved from a disabled instance of "
                "GradScaler."
            )
            raise error(RuntimeError, "load_state_dict", rule)
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale._data[...] = self._init_scale
            self._growth_tracker._data[...] = self._init_growth_tracker

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                rule = (
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end "
                    "after scaler.update()."
                )
                raise error(AssertionError, "GradScaler", rule)
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
            del state["_skipped"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._skipped = weakref.WeakKeyDictionary()


def checked_scale(new_scale: Any, device: str) -> float:
    """A scale that a program sets, as a number."""
    if isinstance(new_scale, float):
        return new_scale
    if new_scale.device.type != device or new_scale.numel() != 1 or new_scale.requires_grad:
        rule = (
            "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
            "requires_grad=False."
        )
        raise error(AssertionError, "update", rule)
    return new_scale.item()
