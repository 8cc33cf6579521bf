"""Hooks of modules: functions that see, and may replace, what goes into and comes out of a module.

`Hooked` holds the registering methods of Module; `call_with_hooks` is what a module's call becomes once a
hook is registered. Gradients are seen by two identity nodes, one before and one behind the module.
Read next: nn/state.py.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from cleargrad.autograd.function import Function
from cleargrad.autograd.node import RemovableHandle
from cleargrad.core.mode import mode, structure
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error

Hooks = OrderedDict[int, Callable]

# Hooks on every module.
global_forward_pre_hooks: Hooks = OrderedDict()
global_forward_hooks: Hooks = OrderedDict()
global_forward_hooks_with_kwargs: dict[int, bool] = OrderedDict()
global_forward_hooks_always_called: dict[int, bool] = OrderedDict()
global_backward_pre_hooks: Hooks = OrderedDict()
global_backward_hooks: Hooks = OrderedDict()
global_module_registration_hooks: Hooks = OrderedDict()
global_parameter_registration_hooks: Hooks = OrderedDict()
global_buffer_registration_hooks: Hooks = OrderedDict()
global_is_full_backward_hook: bool | None = None


def add(hooks: Hooks, hook: Callable, prepend: bool = False, **marks: dict | None) -> RemovableHandle:
    """Registers a hook; each of `marks` is a dictionary that notes something about it, or None."""
    structure.version += 1
    noted = [mark for mark in marks.values() if mark is not None]
    handle = RemovableHandle(hooks, extra_dict=noted)
    hooks[handle.id] = hook
    for mark in noted:
        mark[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def both_kinds_error(op: str) -> Exception:
    rule = "Cannot use both regular backward hooks and full backward hooks"
    return error(RuntimeError, op, rule, fix="use register_full_backward_hook only")


class Hooked:
    """The methods of Module that register hooks on its call and on the backward pass through it."""

    _hooked = False  # whether a call must look for hooks at all
    _is_full_backward_hook: bool | None
    _backward_pre_hooks: Hooks
    _backward_hooks: Hooks
    _forward_pre_hooks: Hooks
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _forward_hooks: Hooks
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` runs before forward and may return other arguments."""
        self._hooked = True
        marked = self._forward_pre_hooks_with_kwargs if with_kwargs else None
        return add(self._forward_pre_hooks, hook, prepend, with_kwargs=marked)

    def register_forward_hook(
        self,
        hook: Callable,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args, output)` runs after forward and may return another output."""
        self._hooked = True
        return add(
            self._forward_hooks,
            hook,
            prepend,
            with_kwargs=self._forward_hooks_with_kwargs if with_kwargs else None,
            always_call=self._forward_hooks_always_called if always_call else None,
        )

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_output)` runs before gradients pass the module and may replace them."""
        self._hooked = True
        return add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` may return other gradients for the module's inputs."""
        if self._is_full_backward_hook is False:
            raise both_kinds_error("register_full_backward_hook")
        self._hooked = self._is_full_backward_hook = True
        return add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """The old form, on the last node that forward made; prefer register_full_backward_hook."""
        if self._is_full_backward_hook is True:
            raise both_kinds_error("register_backward_hook")
        self._hooked = True
        self._is_full_backward_hook = False
        return add(self._backward_hooks, hook)

    def _get_backward_pre_hooks(self) -> list[Callable]:
        return [*global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _get_backward_hooks(self) -> tuple[list[Callable], list[Callable]]:
        """The full backward hooks, and those of the old kind."""
        full: list[Callable] = []
        old: list[Callable] = []
        (full if global_is_full_backward_hook else old).extend(global_backward_hooks.values())
        (full if self._is_full_backward_hook else old).extend(self._backward_hooks.values())
        return full, old


# The call --------------------------------------------------------------------------------------------------


def call_with_hooks(module: Any, args: tuple, kwargs: dict) -> Any:
    """The call of a module that has hooks, or has had some, or was compiled in place."""
    compiled = module.__dict__.get("_compiled_call_impl")
    if compiled is not None:
        return compiled(*args, **kwargs)
    if not has_hooks(module):
        module.__dict__.pop("_hooked", None)
    return call_uncompiled(module, args, kwargs)


def call_uncompiled(module: Any, args: tuple, kwargs: dict) -> Any:
    """Forward with all hooks around it; those marked `always_call` run even when something fails."""
    if not has_hooks(module):
        return module.forward(*args, **kwargs)
    called: set[int] = set()
    state = [args, kwargs, None]
    try:
        return run_with_hooks(module, state, called)
    except Exception:
        run_missed_hooks(module, state, called)
        raise


def has_hooks(module: Any) -> bool:
    """Whether a hook is left; when the last one on all modules was removed, calls need not look again."""
    everywhere = (
        global_forward_pre_hooks,
        global_forward_hooks,
        global_backward_pre_hooks,
        global_backward_hooks,
    )
    Hooked._hooked = any(everywhere)
    own = module._forward_pre_hooks or module._forward_hooks
    return bool(Hooked._hooked or own or module._backward_pre_hooks or module._backward_hooks)


def run_with_hooks(module: Any, state: list, called: set[int]) -> Any:
    """One call, step by step; `state` holds arguments and result for the case of a failure."""
    run_pre_hooks(module, state)
    full, old = module._get_backward_hooks()
    before = module._get_backward_pre_hooks()
    watch = BackwardHook(module, full, before) if full or before else None
    if watch is not None:
        state[0] = watch.setup_input_hook(state[0])
    state[2] = module.forward(*state[0], **state[1])
    for number, hook in (*global_forward_hooks.items(), *module._forward_hooks.items()):
        called.add(number)
        run_forward_hook(module, number, hook, state)
    result = state[2]
    if watch is not None:
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                f"received {type(result)}",
                stacklevel=4,
            )
        result = watch.setup_output_hook(result)
    if old:
        watch_last_node(module, old, result)
    return result


def run_pre_hooks(module: Any, state: list) -> None:
    for number, hook in (*global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()):
        if number not in module._forward_pre_hooks_with_kwargs:
            args = hook(module, state[0])
            if args is not None:
                state[0] = args if isinstance(args, tuple) else (args,)
            continue
        both = hook(module, state[0], state[1])
        if both is None:
            continue
        if not isinstance(both, tuple) or len(both) != 2:
            rule = f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {both}."
            raise error(RuntimeError, "forward_pre_hook", rule)
        state[:2] = both


def run_forward_hook(module: Any, number: int, hook: Callable, state: list) -> None:
    args, kwargs, result = state
    if number in module._forward_hooks_with_kwargs or number in global_forward_hooks_with_kwargs:
        changed = hook(module, args, kwargs, result)
    else:
        changed = hook(module, args, result)
    if changed is not None:
        state[2] = changed


def run_missed_hooks(module: Any, state: list, called: set[int]) -> None:
    """After a failure: the hooks that always run, as far as they have not; their own failures only warn."""
    always = {**global_forward_hooks_always_called, **module._forward_hooks_always_called}
    for number, hook in (*global_forward_hooks.items(), *module._forward_hooks.items()):
        if number not in always or number in called:
            continue
        try:
            run_forward_hook(module, number, hook, state)
        except Exception as failure:
            warnings.warn(
                "module forward hook with ``always_call=True`` raised an exception that was silenced as "
                f"another error was raised in forward: {failure}",
                stacklevel=4,
            )


# Gradients -------------------------------------------------------------------------------------------------


class BackwardHookFunction(Function):
    """The identity on several tensors; gradients can be seen on the node it makes."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple:
        ctx.mark_non_differentiable(*[tensor for tensor in tensors if not tensor.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        return grads


def positions_of_tensors(values: Iterable) -> list[int]:
    return [position for position, value in enumerate(values) if isinstance(value, Tensor)]


def spread(values: Iterable, positions: list[int], length: int) -> tuple:
    """Values at their positions, None elsewhere."""
    full: list = [None] * length
    for position, value in zip(positions, values, strict=True):
        full[position] = value
    return tuple(full)


class BackwardHook:
    """Watches one call of a module: its full backward hooks run when gradients have passed both ends."""

    def __init__(self, module: Any, hooks: list[Callable], pre_hooks: list[Callable]):
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple | None = None
        self.inputs = 0
        self.input_positions: list[int] | None = None  # None: no gradient leaves the module

    def setup_input_hook(self, args: tuple) -> tuple:
        self.inputs = len(args)
        args, node, positions = self.pass_node(args)
        if node is not None:
            self.input_positions = positions
            node.register_hook(self.at_input)
        return args

    def setup_output_hook(self, result: Any) -> Any:
        single = not isinstance(result, tuple)
        outputs, node, positions = self.pass_node((result,) if single else result)
        if node is not None:
            self.outputs, self.output_positions = len(outputs), positions
            node.register_prehook(self.at_output)
        return outputs[0] if single else outputs

    def pass_node(self, values: tuple) -> tuple[tuple, Any, list[int]]:
        """The values with their tensors behind an identity node, if any of them needs a gradient."""
        positions = positions_of_tensors(values)
        if not mode.grad or not any(values[position].requires_grad for position in positions):
            return values, None, positions
        passed = BackwardHookFunction.apply(*[values[position] for position in positions])
        node = next(tensor.grad_fn for tensor in passed if tensor.grad_fn is not None)
        replaced = list(values)
        for position, tensor in zip(positions, passed, strict=True):
            replaced[position] = tensor
        named = getattr(type(values), "_make", None)  # the values may be a named tuple
        return (tuple(replaced) if named is None else named(replaced)), node, positions

    def at_output(self, grads: tuple) -> tuple | None:
        """Gradients reach the module."""
        self.grad_outputs = spread(grads, self.output_positions, self.outputs)
        for hook in self.pre_hooks:
            changed = hook(self.module, self.grad_outputs)
            if changed is not None:
                self.grad_outputs = self.checked(changed, self.outputs, "pre hook", "grad_output")
        handed_on = tuple(self.grad_outputs[position] for position in self.output_positions)
        if self.input_positions is None:
            self.run_without_inputs()
        return handed_on if self.pre_hooks else None

    def run_without_inputs(self) -> None:
        grads = (None,) * self.inputs
        for hook in self.hooks:
            changed = hook(self.module, grads, self.grad_outputs)
            if changed is not None and not (isinstance(changed, tuple) and all(g is None for g in changed)):
                rule = (
                    "Backward hook for Modules where no input requires gradient should always return None or "
                    "None for all gradients."
                )
                raise error(RuntimeError, "backward_hook", rule)
        self.grad_outputs = None

    def at_input(self, grads: tuple, _: Any) -> tuple | None:
        """Gradients have passed the module."""
        if self.grad_outputs is None:
            rule = (
                "Module backward hook for grad_input is called before the grad_output one: the gradient "
                "flows to the Module's input without passing through its output"
            )
            fix = "make sure that the output depends on the input and the loss is computed from the output"
            raise error(RuntimeError, "backward_hook", rule, fix=fix)
        full = spread(grads, self.input_positions or [], self.inputs)
        for hook in self.hooks:
            changed = hook(self.module, full, self.grad_outputs)
            if changed is not None:
                full = self.checked(changed, self.inputs, "hook", "grad_input")
        self.grad_outputs = None
        return tuple(full[position] for position in self.input_positions or [])

    @staticmethod
    def checked(changed: Any, expected: int, kind: str, what: str) -> tuple:
        changed = changed if isinstance(changed, tuple) else (changed,)
        if len(changed) != expected:
            rule = f"Backward {kind} returned an invalid number of {what}"
            raise error(RuntimeError, "backward_hook", rule, got=len(changed), expected=expected)
        return changed


def watch_last_node(module: Any, hooks: list[Callable], result: Any) -> None:
    """The old backward hooks: they see one node's gradients, whatever node it is."""
    while not isinstance(result, Tensor):
        result = next(iter(result.values())) if isinstance(result, dict) else result[0]
    node = result.grad_fn
    for hook in hooks if node is not None else ():
        node.register_hook(lambda grads, outer, hook=hook: hook(module, grads, outer))


# Hooks on all modules --------------------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """`hook(module, args)` before every module's forward."""
    Hooked._hooked = True
    return add(global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)` after every module's forward."""
    Hooked._hooked = True
    return add(
        global_forward_hooks,
        hook,
        with_kwargs=global_forward_hooks_with_kwargs if with_kwargs else None,
        always_call=global_forward_hooks_always_called if always_call else None,
    )


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """`hook(module, grad_output)` before gradients pass any module."""
    Hooked._hooked = True
    return add(global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` when gradients have passed any module."""
    return _register_global_backward("register_module_full_backward_hook", hook, full=True)


def register_module_backward_hook(hook: Callable) -> RemovableHandle:
    """The old form of register_module_full_backward_hook."""
    return _register_global_backward("register_module_backward_hook", hook, full=False)


def _register_global_backward(op: str, hook: Callable, full: bool) -> RemovableHandle:
    global global_is_full_backward_hook
    if global_is_full_backward_hook is not None and global_is_full_backward_hook is not full:
        raise both_kinds_error(op)
    Hooked._hooked = True
    global_is_full_backward_hook = full
    return add(global_backward_hooks, hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """`hook(module, name, submodule)` when a submodule is registered; may return another."""
    return add(global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """`hook(module, name, parameter)` when a parameter is registered; may return another."""
    return add(global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """`hook(module, name, buffer)` when a buffer is registered; may return another."""
    return add(global_buffer_registration_hooks, hook)


def registered(hooks: Hooks, module: Any, name: str, value: Any) -> Any:
    """What is registered after the registration hooks had their say."""
    for hook in hooks.values():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value
