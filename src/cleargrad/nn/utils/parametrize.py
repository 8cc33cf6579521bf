"""torch.nn.utils.parametrize: a module's tensor as a function of other tensors, which are what is trained.

The tensor leaves the module's tables; the module gets a subclass in which the name is computed on every
access. Read next: nn/utils/parametrizations.py.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.module import Module
from cleargrad.nn.modules.container import ModuleDict, ModuleList
from cleargrad.nn.parameter import Parameter

NAME = "parametrize"

# Values computed inside `cached`, by module and name; None outside.
_cache: dict[tuple[int, str], Tensor] | None = None
_depth = 0


@contextmanager
def cached() -> Iterator[None]:
    """Inside, every parametrized tensor is computed once."""
    global _cache, _depth
    _depth += 1
    if _cache is None:
        _cache = {}
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _cache = None


def register_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """As a parameter if it is one, else as a buffer."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def can_invert(module: Module) -> bool:
    return getattr(module, "right_inverse", None) is not None


class ParametrizationList(ModuleList):
    """The functions behind one tensor, applied in order, and the tensors they start from."""

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise error(ValueError, NAME, "ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            start = self._start_from(original)
        self.is_tensor = isinstance(start, Tensor)
        if isinstance(start, Tensor):
            self.ntensors = 1
            self._check_start(start, original)
            original.data = start.data
            register_tensor(self, "original", original)
        else:
            self.ntensors = len(start)
            for number, tensor in enumerate(start):
                if not isinstance(tensor, Tensor):
                    rule = f"right_inverse must return a Tensor or a sequence of tensors, got {type(tensor)}"
                    raise error(ValueError, NAME, rule)
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor, original.requires_grad)
                tensor.requires_grad_(original.requires_grad)
                register_tensor(self, f"original{number}", tensor)
        if not unsafe:
            self._check_result(original)

    def _start_from(self, value: Any) -> Any:
        """What the functions must start from to give `value`; those that cannot tell count as identity."""
        original = value
        for module in reversed(list(self)):
            if can_invert(module):
                with suppress(NotImplementedError):
                    value = module.right_inverse(value)
        if not isinstance(value, (Tensor, Sequence)):
            rule = (
                f"'right_inverse' must return a Tensor or a Sequence of tensors, got {type(value).__name__}"
            )
            raise error(ValueError, NAME, rule)
        return value.clone() if value is original else value

    def _check_start(self, start: Tensor, original: Tensor) -> None:
        if start.dtype is not original.dtype:
            rule = "when `right_inverse` outputs one tensor, it may not change the dtype"
            raise error(ValueError, NAME, rule, original=original, right_inverse=start)

    def _check_result(self, original: Tensor) -> None:
        with no_grad():
            result = self()
        if not isinstance(result, Tensor):
            rule = f"A parametrization must return a tensor. Got {type(result).__name__}."
            raise error(ValueError, NAME, rule)
        same = result.dtype is original.dtype and result.shape == original.shape
        if self.is_tensor and not same:
            rule = "Registering a parametrization may not change the dtype or the shape of the tensor"
            fix = "pass unsafe=True if that is meant"
            raise error(ValueError, NAME, rule, tensor=original, parametrized=result, fix=fix)

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the parametrized tensor becomes `value`, when every function can."""
        with no_grad():
            for module in reversed(list(self)):
                if not can_invert(module):
                    rule = f"parametrization {type(module).__name__} does not implement right_inverse."
                    raise error(RuntimeError, NAME, rule)
                value = module.right_inverse(value)
            if self.is_tensor:
                self._assign("original", value)
                return
            if not isinstance(value, Sequence) or len(value) != self.ntensors:
                rule = f"'right_inverse' must return a sequence of {self.ntensors} tensors"
                raise error(ValueError, NAME, rule)
            for number, tensor in enumerate(value):
                self._assign(f"original{number}", tensor)

    def _assign(self, name: str, value: Any) -> None:
        original = getattr(self, name)
        if not isinstance(value, Tensor):
            rule = f"`right_inverse` should return a tensor, got {type(value).__name__}"
            raise error(ValueError, NAME, rule)
        if value.dtype is not original.dtype:
            rule = "the tensor returned by `right_inverse` has another dtype"
            raise error(ValueError, NAME, rule, original=original, right_inverse=value)
        original.data = value.detach().clone()

    def forward(self) -> Tensor:
        first, *others = list(self)
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*[getattr(self, f"original{number}") for number in range(self.ntensors)])
        for module in others:
            value = module(value)
        return value


# Modules whose tensors are computed ------------------------------------------------------------------------


class Parametrized:
    """What the subclass of a parametrized module adds: computed names, for reading and for assigning."""

    def __getattr__(self, name: str) -> Any:
        lists = self.__dict__.get("_modules", {}).get("parametrizations")
        if lists is None or name not in lists:
            return super().__getattr__(name)  # type: ignore[misc]
        if _cache is None:
            return lists[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = lists[name]()
        return _cache[key]

    def __setattr__(self, name: str, value: Any) -> None:
        lists = self.__dict__.get("_modules", {}).get("parametrizations")
        if lists is None or name not in lists:
            super().__setattr__(name, value)
        else:
            lists[name].right_inverse(value)

    def __getstate__(self) -> Any:
        rule = "Serialization of parametrized modules is only supported through state_dict()"
        raise error(RuntimeError, NAME, rule)

    def __deepcopy__(self, memo: dict) -> Any:
        replica = type(self).__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return replica


@functools.cache
def parametrized_class(cls: Any) -> Any:
    return type(f"Parametrized{cls.__name__}", (Parametrized, cls), {"__module__": __name__})


def type_before_parametrizations(module: Module) -> type:
    """The class a module had before its first parametrization."""
    return type(module).__bases__[1] if isinstance(module, Parametrized) else type(module)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrization: any, or one of this tensor."""
    lists = module._modules.get("parametrizations")
    if not isinstance(lists, ModuleDict):
        return False
    return len(lists) > 0 if tensor_name is None else tensor_name in lists


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a parameter or buffer the value of a function; a second one is applied on top of the first."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        lists: Any = module.parametrizations[tensor_name]  # type: ignore[index]
        if not unsafe:
            check_next(getattr(module, tensor_name), parametrization)
        lists.append(parametrization)
        lists.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        rule = f"Module '{module}' does not have a parameter, a buffer, or a parametrized element"
        raise error(ValueError, NAME, rule, name=tensor_name)
    made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.__class__ = parametrized_class(type(module))  # type: ignore[arg-type]
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = made  # type: ignore[index]
    return module


def check_next(value: Tensor, parametrization: Module) -> None:
    """A further function must keep dtype and shape."""
    with no_grad():
        result = parametrization(value)
    if not isinstance(result, Tensor):
        rule = f"A parametrization must return a tensor. Got {type(result).__name__}."
        raise error(ValueError, NAME, rule)
    if result.dtype is not value.dtype or result.shape != value.shape:
        rule = "Registering a parametrization may not change the dtype or the shape of the tensor"
        fix = "pass unsafe=True if that is meant"
        raise error(ValueError, NAME, rule, tensor=value, parametrized=result, fix=fix)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a tensor an ordinary one again: with its present value, or with the original's."""
    if not is_parametrized(module, tensor_name):
        rule = f"Module {module} does not have a parametrization on {tensor_name}"
        raise error(ValueError, NAME, rule)
    lists: Any = module.parametrizations[tensor_name]  # type: ignore[index]
    if not lists.is_tensor and not leave_parametrized:
        rule = "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is made of several"
        raise error(ValueError, NAME, rule)
    value = getattr(module, tensor_name)
    if not lists.is_tensor:
        value = Parameter(value.detach()) if value.requires_grad else value
    else:
        if leave_parametrized:
            lists.original.data = value.detach()
        value = lists.original
    del module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type_before_parametrizations(module)
    register_tensor(module, tensor_name, value)
    return module


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives another module copies of parametrizations, and the tensors they start from."""
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)  # type: ignore
    for name in names:
        lists: Any = from_module.parametrizations[name]  # type: ignore[index]
        if name not in to_module._parameters:
            to_module.register_parameter(name, Parameter(getattr(from_module, name).detach()))
        for parametrization in lists:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=True)
        target: Any = to_module.parametrizations[name]  # type: ignore[index]
        for key, tensor in lists._parameters.items():
            target._parameters[key].data = tensor.detach().clone()
    return to_module
