"""torch.nn.utils.skip_init: modules without starting values. Read next: nn/utils/stateless.py."""

from __future__ import annotations

import inspect
from typing import Any

from cleargrad.errors import error
from cleargrad.nn.module import Module
from cleargrad.random import fork_rng


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters may hold anything; no random number is drawn for them."""
    if not issubclass(module_cls, Module):
        raise error(RuntimeError, "skip_init", f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise error(RuntimeError, "skip_init", "Module must support a 'device' arg to skip initialization")
    with fork_rng():
        return module_cls(*args, **kwargs)
