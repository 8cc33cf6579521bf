"""state_dict and load_state_dict: a module's parameters and buffers by name, out of it and into it.

Read next: nn/module.py.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.autograd.node import RemovableHandle
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.hooks import add
from cleargrad.nn.parameter import Parameter, is_lazy

EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict did not find, and what it did not know."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class Stateful:
    """The methods of Module about its state."""

    _version = 1
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict
    _state_dict_pre_hooks: OrderedDict
    _load_state_dict_pre_hooks: OrderedDict
    _load_state_dict_post_hooks: OrderedDict

    # Out of the module -------------------------------------------------------------------------------------

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by name; the tensors share the module's memory."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict "
                "for details.",
                FutureWarning,
                stacklevel=2,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination") if destination is None else destination
            prefix = given.get("prefix", prefix)
            keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        versions = {"version": self._version}
        metadata = getattr(destination, "_metadata", None)
        if metadata is not None:
            metadata[prefix[:-1]] = versions
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        return self._run_state_dict_hooks(destination, prefix, versions)

    def _run_state_dict_hooks(self, destination: Any, prefix: str, versions: dict) -> Any:
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, versions)
            if not getattr(hook, "_from_public_api", False):
                destination = destination if changed is None else changed
            elif changed is not None:
                raise error(RuntimeError, "state_dict", "state_dict post-hook must return None")
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Puts this module's own state into a dictionary, without its submodules'."""
        for name, tensor in self._own_state().items():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def _own_state(self) -> dict[str, Any]:
        """This module's own parameters and persistent buffers."""
        tensors = {name: tensor for name, tensor in self._parameters.items() if tensor is not None}
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                tensors[name] = buffer  # type: ignore[assignment]
        return tensors

    def get_extra_state(self) -> Any:
        """What else the state holds; to be overridden together with set_extra_state."""
        raise error(RuntimeError, "get_extra_state", f"{type(self).__name__} does not define get_extra_state")

    def set_extra_state(self, state: Any) -> None:
        """Takes back what get_extra_state gave."""
        raise error(RuntimeError, "set_extra_state", f"{type(self).__name__} does not define set_extra_state")

    # Into the module ---------------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies a state into the module; with `strict`, names must be exactly the module's own."""
        if not isinstance(state_dict, Mapping):
            rule = f"Expected state_dict to be dict-like, got {type(state_dict)}."
            raise error(TypeError, "load_state_dict", rule)
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)  # hooks may change it
        if metadata is not None:
            state_dict._metadata = metadata  # type: ignore[attr-defined]
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []

        def load(module: Any, state: Any, prefix: str) -> None:
            versions = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                versions["assign_to_params_buffers"] = True
            module._load_from_state_dict(state, prefix, versions, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    part = {key: value for key, value in state.items() if key.startswith(inner)}
                    load(child, part, inner)
            module._run_load_post_hooks(_IncompatibleKeys(missing, unexpected))

        load(self, state_dict, "")
        if strict and unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {quoted(unexpected)}. ")
        if strict and missing:
            errors.insert(0, f"Missing key(s) in state_dict: {quoted(missing)}. ")
        if errors:
            rule = f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors)
            raise error(RuntimeError, "load_state_dict", rule)
        return _IncompatibleKeys(missing, unexpected)

    def _run_load_post_hooks(self, keys: _IncompatibleKeys) -> None:
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, keys) is not None:
                rule = (
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                    "new values"
                )
                fix = "change incompatible_keys in place"
                raise error(AssertionError, "load_state_dict", rule, fix=fix)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Copies this module's own state out of a dictionary, and notes what went wrong."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = self._own_state()
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in own.items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.extend([key] if strict else [])
                continue
            problem = self._load_tensor(name, key, tensor, state_dict[key], assign)
            if problem is not None:
                error_msgs.append(problem)
        self._load_extra_state(state_dict, prefix + EXTRA, strict, missing_keys, unexpected_keys)
        if strict:
            unexpected_keys.extend(key for key in state_dict if self._is_unknown(key, prefix, own))

    def _load_tensor(self, name: str, key: str, tensor: Any, value: Any, assign: bool) -> str | None:
        """Takes one tensor of the state; returns what is wrong with it."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object '
                f"from checkpoint but received {type(value)}"
            )
        lazy = is_lazy(tensor)
        if not lazy:
            if len(tensor.shape) == 0 and len(value.shape) == 1:
                value = value[0]  # scalars were saved with one dimension once
            if tensor.shape != value.shape:
                return (
                    f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                    f"the shape in current model is {tensor.shape}."
                )
        try:
            with no_grad():
                if assign:
                    self._assign_tensor(name, tensor, value)
                elif not lazy:
                    if tensor.is_meta and not value.is_meta:
                        warnings.warn(
                            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                            "parameter in the current model, which is a no-op. (Did you mean to pass "
                            "`assign=True` to assign items in the state dictionary to their corresponding key in "
                            "the module instead of copying them in place?)",
                            stacklevel=2,
                        )
                    tensor.copy_(value)
        except Exception as failure:
            shapes = "" if lazy else f" {tensor.size()} and whose dimensions in the checkpoint are"
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are{shapes} '
                f"{value.size()}, an exception occurred : {failure.args}."
            )
        return None

    def _assign_tensor(self, name: str, old: Tensor, value: Tensor) -> None:
        if isinstance(old, Parameter):
            if isinstance(value, Parameter):
                value.requires_grad_(old.requires_grad)
            else:
                value = Parameter(value, requires_grad=old.requires_grad)
        setattr(self, name, value)

    def _load_extra_state(
        self, state_dict: Any, key: str, strict: bool, missing: list[str], unexpected: list[str]
    ) -> None:
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing.append(key)
        elif strict and key in state_dict:
            unexpected.append(key)

    def _is_unknown(self, key: str, prefix: str, own: dict) -> bool:
        if not key.startswith(prefix) or key == prefix + EXTRA:
            return False
        name, dot, _ = key[len(prefix) :].partition(".")
        return name not in (self._modules if dot else own)

    # Hooks -------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` runs before the state is collected."""
        return add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` may change the state in place."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """As register_state_dict_post_hook, and the hook may return another dictionary."""
        if getattr(hook, "_from_public_api", False):
            rule = (
                "Cannot register the same function as the state dict post hook that was previously registered"
            )
            raise error(RuntimeError, "_register_state_dict_hook", rule)
        return add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """`hook(module, state_dict, prefix, ...)` runs before this module's state is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable, with_module: bool = False
    ) -> RemovableHandle:
        return add(self._load_state_dict_pre_hooks, _LoadHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """`hook(module, incompatible_keys)` runs after the module and its submodules are loaded."""
        return add(self._load_state_dict_post_hooks, hook)


class _LoadHook:
    """A hook before loading, perhaps with its module; a copied module's hook gets the copy."""

    def __init__(self, hook: Callable, module: Any):
        self.hook = hook
        self.module = module

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args) if self.module is None else self.hook(self.module, *args)


def quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
