"""Optimizer: parameters in groups with options, state per parameter, hooks, and PyTorch's checkpoint layout.

What a step computes is not said here: optim/rule.py runs a rule over the parameters, and each algorithm's
file states its rule. Read next: optim/rule.py.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from cleargrad.autograd.node import RemovableHandle
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import step_made, structure
from cleargrad.core.tensor import Tensor
from cleargrad.core.watch import watch
from cleargrad.errors import error, user_place
from cleargrad.ops.creation import tensor
from cleargrad.optim import private_names as _private_names

ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
EVERY_STEP_BEFORE: dict[int, Callable] = OrderedDict()
EVERY_STEP_AFTER: dict[int, Callable] = OrderedDict()

globals().update({name: value for name, value in vars(_private_names).items() if name[0] == "_" != name[1]})


class _Required:
    """The default of an option that every parameter group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` before every step of every optimizer."""
    return hang(EVERY_STEP_BEFORE, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return hang(EVERY_STEP_AFTER, hook)


def hang(hooks: Any, hook: Callable, prepend: bool = False) -> RemovableHandle:
    structure.version += 1
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def with_hooks(step: Callable) -> Callable:
    """A step with the hooks around it; reached through super(), it leaves them to the outer step."""

    @functools.wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        self = args[0]
        if type(self).step is not hooked:
            return step(*args, **kwargs)
        hooks = vars(self).get("_optimizer_step_pre_hooks", {})
        if hooks or EVERY_STEP_BEFORE:
            for hook in (*EVERY_STEP_BEFORE.values(), *hooks.values()):
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = checked_arguments(changed)
        result = step(*args, **kwargs)
        step_made()
        hooks = vars(self).get("_optimizer_step_post_hooks", {})
        if hooks or EVERY_STEP_AFTER:
            for hook in (*hooks.values(), *EVERY_STEP_AFTER.values()):
                hook(self, args, kwargs)
        return result

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


def checked_arguments(changed: Any) -> tuple:
    if not isinstance(changed, tuple) or len(changed) != 2:
        rule = "a step pre-hook must return None or a tuple of (new_args, new_kwargs)"
        raise error(RuntimeError, "Optimizer.step", rule, got=changed)
    return changed


class Optimizer:
    """The base of all optimizers: `params` are tensors, (name, tensor) pairs or dicts of groups."""

    _HOOKS = (
        "_optimizer_step_pre_hooks",
        "_optimizer_step_post_hooks",
        "_optimizer_state_dict_pre_hooks",
        "_optimizer_state_dict_post_hooks",
        "_optimizer_load_state_dict_pre_hooks",
        "_optimizer_load_state_dict_post_hooks",
    )
    # Options that old checkpoints lack, and state that they hold as plain numbers.
    _LATER_OPTIONS: dict[str, Any] = {}
    _NUMBERS: tuple[str, ...] = ()
    _INPUTS: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = with_hooks(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: Iterable, defaults: dict[str, Any]):
        self.defaults = defaults
        self._make_hooks()
        if isinstance(params, Tensor):
            rule = "params argument given to the optimizer should be an iterable of Tensors or dicts"
            raise error(TypeError, name_of(self), rule, got=params, fix="put the tensor in a list")
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise error(ValueError, name_of(self), "optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _patch_step_function(self) -> None:
        """Optimizers that wrap another call it instead of __init__; here a class's step has its hooks already."""

    def _make_hooks(self) -> None:
        for hooks in self._HOOKS:
            vars(self).setdefault(hooks, OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        structure.version += 1
        vars(self).update(state)
        self._make_hooks()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for option, default in self._LATER_OPTIONS.items():
                group.setdefault(option, default)
        for parameter, kept in self.state.items():
            for key in self._NUMBERS if isinstance(parameter, Tensor) else ():
                if key in kept and not isinstance(kept[key], Tensor):
                    kept[key] = scalar(float(kept[key]))

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for number, group in enumerate(self.param_groups):
            rows = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            text += f"\nParameter Group {number}\n" + "".join(rows)
        return text + ")"

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters; `closure` computes the loss again and returns it."""
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients; with `set_to_none=False` they become zeros that the next step still sees."""
        if set_to_none:
            watch.cleared = user_place()
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                    continue
                grad = parameter.grad
                if grad is None:
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    # Groups ------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with options of their own; what the group leaves open comes from the defaults."""
        if not isinstance(param_group, dict):
            rule = f"param_group must be a dict, but got {type(param_group)}"
            raise error(TypeError, "add_param_group", rule)
        params = listed(self, param_group["params"])
        names = [entry[0] for entry in params if isinstance(entry, tuple)]
        params = [entry[1] if isinstance(entry, tuple) else entry for entry in params]
        param_group["params"] = params
        if names:
            if len(names) != len(params):
                rule = "all optimizer params should be with/without names. Some param names are missing"
                raise error(ValueError, name_of(self), rule)
            param_group["param_names"] = names
        for parameter in params:
            check_parameter(self, parameter)
        for option, default in self.defaults.items():
            if default is required and option not in param_group:
                rule = f"parameter group didn't specify a value of required optimization parameter {option}"
                raise error(ValueError, name_of(self), rule)
            param_group.setdefault(option, default)
        check_group(self, param_group)
        structure.version += 1
        self.param_groups.append(param_group)

    # Hooks -------------------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before each step; it may return new (args, kwargs)."""
        return hang(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return hang(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` before `state_dict`."""
        return hang(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` after `state_dict`; it may return another dict."""
        return hang(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before `load_state_dict`; it may return another dict."""
        return hang(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` after `load_state_dict`."""
        return hang(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # Checkpoints -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state and the groups, with parameters replaced by their numbers: PyTorch's layout."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        for number, parameter in enumerate(chain.from_iterable(g["params"] for g in self.param_groups)):
            numbers.setdefault(id(parameter), number)
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(parameter)] for parameter in group["params"]]
            groups.append(packed)
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: kept for k, kept in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a dict that `state_dict` made, here or in PyTorch; parameters are matched by position."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups = deepcopy(state_dict["param_groups"])
        owners = match(self, groups)
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, kept in state_dict["state"].items():
            if number in owners:
                parameter, options = owners[number]
                state[parameter] = moved(kept, parameter, options)
            else:
                state[number] = kept
        for group, own in zip(groups, self.param_groups, strict=True):
            group["params"] = own["params"]
            if "param_names" in own:
                group.setdefault("param_names", own["param_names"])
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)


# What groups must be ---------------------------------------------------------------------------------------


def name_of(optimizer: Optimizer) -> str:
    return type(optimizer).__name__


def listed(optimizer: Optimizer, params: Any) -> list:
    if isinstance(params, Tensor):
        return [params]
    if isinstance(params, set):
        rule = (
            "optimizer parameters need to be organized in ordered collections, but "
            "the ordering of tensors in sets will change between runs"
        )
        raise error(TypeError, name_of(optimizer), rule, fix="use a list instead")
    return list(params)


def check_parameter(optimizer: Optimizer, parameter: Any) -> None:
    if not isinstance(parameter, Tensor):
        rule = f"optimizer can only optimize Tensors, but one of the params is {type(parameter).__name__}"
        raise error(TypeError, name_of(optimizer), rule)
    if optimizer.defaults.get("differentiable") or parameter.is_leaf or parameter.retains_grad:
        return
    rule, fix = "can't optimize a non-leaf Tensor", "give the tensors it was computed from"
    raise error(ValueError, name_of(optimizer), rule, got=parameter, fix=fix)


def check_group(optimizer: Optimizer, group: dict[str, Any]) -> None:
    """A parameter belongs to one group, once; either all groups have names or none has."""
    members = set(group["params"])
    if len(members) != len(group["params"]):
        warnings.warn(
            "optimizer contains a parameter group with duplicate parameters; in future, this will cause "
            "an error; see github.com/pytorch/pytorch/issues/40967 for more information",
            stacklevel=4,
        )
    named = "param_names" in group
    for other in optimizer.param_groups:
        if ("param_names" in other) != named:
            rule = (
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if named else 'without'} names to the optimizer"
            )
            raise error(ValueError, name_of(optimizer), rule)
        if not members.isdisjoint(other["params"]):
            raise error(
                ValueError, name_of(optimizer), "some parameters appear in more than one parameter group"
            )


def match(optimizer: Optimizer, groups: list[dict[str, Any]]) -> dict[Any, tuple]:
    """For each parameter number of a checkpoint: the parameter here, and the checkpoint's options."""
    if len(groups) != len(optimizer.param_groups):
        rule = "loaded state dict has a different number of parameter groups"
        raise error(ValueError, "load_state_dict", rule, here=len(optimizer.param_groups), loaded=len(groups))
    owners = {}
    for place, (group, own) in enumerate(zip(groups, optimizer.param_groups, strict=True)):
        here, loaded = len(own["params"]), len(group["params"])
        if here != loaded:
            rule = (
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
            raise error(ValueError, "load_state_dict", rule, group=place, here=here, loaded=loaded)
        owners.update({k: (p, group) for k, p in zip(group["params"], own["params"], strict=True)})
    return owners


def scalar(value: float) -> Tensor:
    """A number that belongs to the state: float32, or float64 where that is the default."""
    wide = dtypes.get_default_dtype() == dtypes.float64
    return tensor(value, dtype=dtypes.float64 if wide else dtypes.float32)


def moved(value: Any, parameter: Tensor, options: dict[str, Any], key: Any = None) -> Any:
    """A piece of loaded state on its parameter's device and in its dtype; the step count keeps its own."""
    if isinstance(value, Tensor):
        if key == "step":
            exact = options.get("capturable") or options.get("fused")
            return value.to(device=parameter.device, dtype=dtypes.float32) if exact else value
        kind = parameter.dtype if parameter.is_floating_point() else value.dtype
        return value.to(device=parameter.device, dtype=kind)
    if isinstance(value, dict):
        return {name: moved(part, parameter, options, name) for name, part in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(moved(part, parameter, options) for part in value)  # type: ignore[call-arg]
    return value
