"""Lazy modules: they learn their sizes from their first input.

Their parameters are uninitialised until a first call, or a loaded state, says the shapes; then the module
becomes an instance of the ordinary class. Read next: nn/modules/linear.py.
"""

from __future__ import annotations

import warnings
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.autograd.node import RemovableHandle
from cleargrad.errors import error
from cleargrad.nn.module import Module
from cleargrad.nn.parameter import is_lazy


class LazyModuleMixin(Module):
    """Base of lazy modules, listed before the class that they become."""

    cls_to_become: type[Module] | None = None
    _load_hook: RemovableHandle
    _initialize_hook: RemovableHandle

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)
        warnings.warn(
            "Lazy modules are a new feature under heavy development so changes to the API or functionality "
            "can happen at any moment.",
            stacklevel=3,
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives the parameters their shapes, from the inputs of a call; every lazy module defines it."""
        name = type(self).__name__
        rule = f"initialize_parameters is not implemented for {name}"
        raise error(NotImplementedError, name, rule)

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still waits for its shape."""
        return any(is_lazy(value) for value in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module: Any, args: tuple, kwargs: dict | None = None) -> None:
        """Runs before the first forward: initialises the parameters and ends the laziness."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            rule = f"module {self._get_name()} has not been fully initialized"
            raise error(RuntimeError, self._get_name(), rule)
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """A state that knows the shapes gives them to the parameters."""
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            loaded = state_dict.get(prefix + name)
            if loaded is not None and is_lazy(value) and not is_lazy(loaded):
                with no_grad():
                    value.materialize(loaded.shape)  # type: ignore[union-attr]
