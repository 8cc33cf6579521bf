"""A module whose call is compiled: the wrapper that torch.compile gives for a module.

Read next: compile/capture.py.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from cleargrad.nn.module import Module

OWN = ("_orig_mod", "_compiled", "_settings", "_hooked")


class OptimizedModule(Module):
    """Stands for a module; everything but the call is the module's own."""

    _orig_mod: Module

    def __init__(
        self, module: Module, compile_call: Callable[..., Callable], settings: dict[str, Any]
    ) -> None:
        super().__init__()
        del self.__dict__["training"]
        self._modules["_orig_mod"] = module
        self.__dict__["_settings"] = settings
        self.__dict__["_compiled"] = compile_call(module.__call__, **settings)

    def __reduce__(self) -> tuple:
        return rebuilt, (self._orig_mod, self.__dict__["_settings"])

    def __deepcopy__(self, memo: dict) -> OptimizedModule:
        return rebuilt(copy.deepcopy(self._orig_mod, memo), self.__dict__["_settings"])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.__dict__.get("_hooked"):  # its own hooks see what goes into the program, and what comes out
            return super().__call__(*args, **kwargs)
        return self.__dict__["_compiled"](*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled"](*args, **kwargs)

    @property
    def training(self) -> bool:  # type: ignore[override]
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        self._orig_mod.training = value

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "training" or name in OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __iter__(self) -> Any:
        return iter(self._orig_mod)  # type: ignore[call-overload]

    def __getitem__(self, index: Any) -> Any:
        return self._orig_mod[index]  # type: ignore[index]


def rebuilt(module: Module, settings: dict[str, Any]) -> OptimizedModule:
    """The wrapper of a copy; programs are compiled anew."""
    from cleargrad.compile import compile

    return compile(module, **settings)
