"""RuleOptimizer: runs one rule, `update(p, g, state, group)`, over every parameter that has a gradient.

The rule is written once, in Tensor operations. How it runs is decided here: without recording, on complex
parameters as pairs of reals, on large parameters block by block so that what it computes in between stays in
the cache, and with recording on copies, so that nothing the graph has saved is overwritten. Read next:
optim/sgd.py and its neighbours, one algorithm each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

from cleargrad.autograd.modes import enable_grad
from cleargrad.core.device import CPU, on_host
from cleargrad.core.mode import NO_GRAD, mode, settle
from cleargrad.core.tensor import Tensor, held, place_of, value_in, wrap
from cleargrad.devices.cpu.native import LARGE, kernels
from cleargrad.errors import error
from cleargrad.ops.complex_numbers import view_as_complex, view_as_real
from cleargrad.ops.creation import zeros_like
from cleargrad.optim.optimizer import Optimizer, name_of, scalar

BLOCK = 1 << 16  # elements; a few float32 arrays of this size stay in the cache, and calls cost little
GRAPH_DEVICES = ["cuda", "xpu", "hpu"]
NOTHING: tuple = ([], ())
SWITCHES = ("momentum", "weight_decay", "dampening")  # options that leave out a part of the rule where zero


class RuleOptimizer(Optimizer):
    """An optimizer that treats each parameter by one rule."""

    _NUMBERS: tuple[str, ...] = ("step",)
    # Options that a compiled program reads at every step; all others are fixed in it.
    _INPUTS: tuple[str, ...] = ("lr", "betas", "eps", "momentum", "weight_decay", "dampening")
    _by_element = True  # each element is updated by itself, so a parameter may be cut into blocks
    _takes_complex = True

    def _start(self, p: Tensor, g: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def _count(self, state: dict[str, Any], group: dict[str, Any]) -> None:
        """What happens to a parameter's counters once per step, before the rule."""
        state["step"].add_(1)

    @staticmethod
    def _update(p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """The rule: changes the parameter and its state in place."""
        raise NotImplementedError

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient; returns the closure's loss, if there is one."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        before = mode.turn(bool(self.defaults.get("differentiable")))
        try:
            self._step_groups()
        finally:
            mode.turn(before)
        return loss

    def _step_groups(self) -> None:
        try:
            for group in self.param_groups:
                self._step_group(group)
        finally:
            settle("an optimizer has made its step")

    def _step_group(self, group: dict[str, Any]) -> None:
        options = readable(group)
        strict = group.get("capturable") or group.get("fused")
        items = []
        for p in group["params"]:
            g = p._grad
            if g is None:
                g = p.grad  # which warns if there will never be one
                if g is None:
                    continue
            if strict:
                self._check_flags(p, group)
            if not self._takes_complex and p._form.dtype.kind == "c":
                raise error(
                    RuntimeError, name_of(self), f"{name_of(self)} does not support complex parameters"
                )
            state = self.state.get(p)
            if not state:
                state = self._start(p, g, options)
                if state:
                    self.state[p] = state
            items.append((p, g, state))
        if mode.waiter is not None:
            mode.waiter.update(self, group, options, items)
        else:
            self._make_step(group, options, items)

    def _make_step(self, group: dict[str, Any], options: dict[str, Any], items: list[tuple]) -> None:
        """Updates parameters that have gradients and state."""
        if not self._apply_together(group, options, items):
            for p, g, state in items:
                self._apply(p, g, state, options)

    def _apply_together(self, group: dict[str, Any], options: dict[str, Any], items: list[tuple]) -> bool:
        """All parameters by one call of machine code, where they are large together and nothing is unusual."""
        if mode.how != NO_GRAD or not self._by_element or sum(p._form.size for p, *_ in items) < LARGE:
            return False
        if any(place_of(p) is not CPU for p, *_ in items):
            return False
        found = kernels()
        return found is not None and found.step(self, group, options, items)

    def _recorded(self, group: dict[str, Any]) -> dict[str, Any]:
        """The group's options for a recorder: numbers that may differ at the next step are tensors."""
        place = next(k for k, other in enumerate(self.param_groups) if other is group)
        recorder: Any = mode.recorder
        return self._with_inputs(readable(group), lambda name, part: recorder.option(self, place, name, part))

    def _fixed(self, options: dict[str, Any]) -> tuple:
        """Options but for those numbers; those of a group that nobody has changed since are known."""
        options = {**options, "params": None}
        kept = vars(self).setdefault("_known_options", {})  # by names: values, and what came of them
        values, found = kept.get((*options,), NOTHING)
        if len(values) == len(options) and all(map(is_, values, options.values())):
            return found
        found = tuple([x for x in self._with_inputs(options, lambda *_: None).items() if x[0] != "params"])
        if all(map(is_lasting, options.values())):
            kept[(*options,)] = [*options.values()], found
        return found

    def _with_inputs(
        self, options: dict[str, Any], stand_in: Callable[[str, int | None], Any]
    ) -> dict[str, Any]:
        """Options with something else in the places of numbers that may differ at the next step."""
        # A list may be changed where it is, so what it holds now counts.
        found = {name: tuple(x) if type(x) is list and name != "params" else x for name, x in options.items()}
        for name in self._INPUTS:
            value = found.get(name)
            if type(value) is tuple:
                parts = [stand_in(name, k) if is_input(name, x) else x for k, x in enumerate(value)]
                found[name] = tuple(parts)
            elif is_input(name, value):
                found[name] = stand_in(name, None)
        return found

    def _apply(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """One parameter's step, in the way that suits it."""
        data = p._form
        if mode.grad:
            self._apply_recorded(p, g, state, group)
            return
        if state:
            self._count(state, group)
        if data.dtype.kind == "c":
            self._apply_as_reals(p, g, state, group)
        elif (
            data.size > 2 * BLOCK
            and self._by_element
            and mode.how == NO_GRAD
            and None not in state.values()
            and held(p) is None
        ):
            for rows, grad, part in blocks(p, g, state):
                self._update(rows, grad, part, group)
            for written in (p, *state.values()):
                written.bump()
        else:
            self._update(p, g, state, group)

    def _apply_recorded(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        work = {name: kept.clone() if isinstance(kept, Tensor) else kept for name, kept in state.items()}
        if work:
            self._count(work, group)
        result = p.clone()
        if p.is_complex():
            self._apply_as_reals(result, g, work, group)
        else:
            self._update(result, g, work, group)
        state.update(work)
        p.copy_(result)

    def _apply_as_reals(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        work = {name: as_reals(kept) for name, kept in state.items()}
        self._update(view_as_real(p), view_as_real(g), work, group)
        for name, kept in state.items():
            if kept is None and work[name] is not None:  # what the first step made
                state[name] = view_as_complex(work[name])

    def _check_flags(self, p: Tensor, group: dict[str, Any]) -> None:
        """What PyTorch refuses when a graph capture or a fused kernel is asked for."""
        kind = p.device.type
        if group.get("capturable") and kind not in GRAPH_DEVICES:
            rule = (
                f"If capturable=True, params and state_steps must be on supported devices: {GRAPH_DEVICES}."
            )
            raise error(AssertionError, name_of(self), rule, parameter=p)
        if group.get("fused") and not p.is_floating_point():
            rule = "`fused=True` requires all the params to be floating point Tensors of supported devices"
            raise error(RuntimeError, name_of(self), rule, parameter=p)


def readable(group: dict[str, Any]) -> dict[str, Any]:
    """The group's options with tensors read as numbers, unless they are to be recorded as tensors."""
    found = {}
    for name in ("lr", "weight_decay"):
        if isinstance(group.get(name), Tensor):
            found[name] = number(group[name])
    if "betas" in group and isinstance(group["betas"][0], Tensor):
        found["betas"] = tuple(map(number, group["betas"]))
    return {**group, **found} if found else group


def number(value: Any) -> Any:
    return value.squeeze() if mode.grad else on_host(value_in(value)).item()


def blocks(p: Tensor, g: Tensor, state: dict[str, Any]) -> Iterator[tuple]:
    """The parameter, its gradient and its state, a few rows at a time; counters are passed whole."""
    data, grad, shape = p._data, g._data, p._form.shape
    rows = max(1, BLOCK * shape[0] // data.size)
    fields = {name: kept._data for name, kept in state.items() if kept._form.shape == shape}
    for first in range(0, shape[0], rows):
        part = slice(first, first + rows)
        pieces = {name: wrap(field[part]) for name, field in fields.items()}
        yield wrap(data[part]), wrap(grad[part]), {**state, **pieces}


def as_reals(kept: Any) -> Any:
    return view_as_real(kept) if isinstance(kept, Tensor) and kept.is_complex() else kept


# What the rules share --------------------------------------------------------------------------------------


def counter(tensor: Tensor) -> Any:
    """A counter as a number; as a tensor where a recorder watches, since the number will differ."""
    return tensor.item() if mode.recorder is None else tensor.double()


def steps(state: dict[str, Any]) -> Any:
    """The number of steps so far, this one included."""
    return counter(state["step"])


def is_input(name: str, value: Any) -> bool:
    """Whether an option is a number that a program reads at every step; zero may leave out a part of the rule."""
    return type(value) in (int, float) and not (name in SWITCHES and value == 0)


def is_lasting(value: Any) -> bool:
    """Whether a value stays what it is."""
    return (
        all(map(is_lasting, value))
        if type(value) is tuple
        else type(value) in (int, float, bool, str, type(None))
    )


def is_on(option: Any) -> bool:
    """Whether a part of a rule that zero leaves out takes part; a recorded number is not zero."""
    return isinstance(option, Tensor) or option != 0


def larger(x: Any, y: Any) -> Any:
    """The larger of two numbers, or of recorded ones."""
    if isinstance(x, Tensor):
        return x.clamp_min(y)
    return y.clamp_min(x) if isinstance(y, Tensor) else max(x, y)


def smaller(x: Any, y: Any) -> Any:
    """The smaller of two numbers, or of recorded ones."""
    if isinstance(x, Tensor):
        return x.clamp_max(y)
    return y.clamp_max(x) if isinstance(y, Tensor) else min(x, y)


def descent(p: Tensor, g: Tensor, group: dict[str, Any]) -> Tensor:
    """The gradient to go against: −g when maximising; with weight decay λ it is that of a penalty λ‖p‖²/2.

    Decoupled decay shrinks the parameter at once, by lr λ, and leaves the gradient alone.
    """
    if group["maximize"]:
        g = -g
    decay = group["weight_decay"]
    if not is_on(decay):
        return g
    if group.get("decoupled_weight_decay"):
        p.mul_(1 - group["lr"] * decay)
        return g
    if isinstance(decay, Tensor):  # recorded: its gradient needs the parameter as it is before the step
        return g + p.clone() * decay
    return g.add(p, alpha=decay)


def averages(p: Tensor, *names: str) -> dict[str, Any]:
    """A step count and running averages that start at zero."""
    return {"step": scalar(0.0), **{name: zeros_like(p) for name in names}}


# What constructors check -----------------------------------------------------------------------------------


def check(optimizer: str, ok: Any, rule: str) -> None:
    if not ok:
        raise error(ValueError, optimizer, rule)


def check_lr(optimizer: str, lr: Any) -> None:
    if isinstance(lr, Tensor):
        check(optimizer, lr.numel() == 1, "Tensor lr must be 1-element")
    check(optimizer, lr >= 0.0, f"Invalid learning rate: {lr}")


def check_betas(optimizer: str, betas: tuple) -> None:
    for index in range(2):
        rule = f"Invalid beta parameter at index {index}: {betas[index]}"
        check(optimizer, 0.0 <= betas[index] < 1.0, rule)


def check_not_negative(optimizer: str, **values: Any) -> None:
    for name, value in values.items():
        label = "epsilon" if name == "eps" else name
        check(optimizer, value >= 0.0, f"Invalid {label} value: {value}")


def check_fused(optimizer: str, fused: Any, foreach: Any, differentiable: bool) -> None:
    if fused and differentiable:
        raise error(RuntimeError, optimizer, "`fused` does not support `differentiable`")
    if fused and foreach:
        raise error(RuntimeError, optimizer, "`fused` and `foreach` cannot be `True` together.")
