"""Containers of modules and of parameters: sequences and dictionaries that register what they hold.

Read next: nn/modules/lazy.py.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import index as as_index
from typing import Any, Self

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.module import Module, indented
from cleargrad.nn.parameter import Parameter


def position(container: Any, idx: Any) -> int:
    """An index that may count from the end, checked."""
    idx, length = as_index(idx), len(container)
    if not -length <= idx < length:
        raise error(IndexError, type(container).__name__, f"index {idx} is out of range", length=length)
    return idx % length


def checked_iterable(name: str, values: Any) -> Iterable:
    if isinstance(values, Iterable) and not isinstance(values, Tensor):
        return values
    rule = f"{name} should be called with an iterable, but got {type(values).__name__}"
    raise error(TypeError, name, rule)


def pairs_of(name: str, values: Any) -> Iterator[tuple]:
    """Key and value pairs, from a mapping or from any iterable of them."""
    if isinstance(values, Mapping):
        yield from values.items()
        return
    if not isinstance(values, Iterable):
        rule = f"{name}.update should be called with an iterable of key/value pairs"
        raise error(TypeError, name, f"{rule}, but got {type(values).__name__}")
    for number, pair in enumerate(values):
        if not isinstance(pair, Iterable):
            rule = f"{name} update sequence element #{number} should be Iterable; is {type(pair).__name__}"
            raise error(TypeError, name, rule)
        pair = tuple(pair)
        if len(pair) != 2:
            rule = f"{name} update sequence element #{number} has length {len(pair)}; 2 is required"
            raise error(ValueError, name, rule)
        yield pair


class Container(Module):
    """The oldest container: submodules by keyword."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in nn.Module. Subclass "
            "that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


# Sequences of modules --------------------------------------------------------------------------------------


class NumberedModules(Module):
    """What Sequential and ModuleList share: submodules in order, mostly named by their numbers."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _name_at(self, idx: Any) -> str:
        return list(self._modules)[position(self, idx)]

    def __setitem__(self, idx: Any, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: Any) -> None:
        names = list(self._modules)
        for name in names[idx] if isinstance(idx, slice) else [self._name_at(idx)]:
            delattr(self, name)
        self._renumber()

    def _renumber(self) -> None:
        modules = list(self._modules.values())
        self._modules.clear()
        self._modules.update({str(number): module for number, module in enumerate(modules)})

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        """Takes a module out and returns it."""
        module = self[key]  # type: ignore[index]
        del self[key]
        return module

    def _insert(self, index: int, module: Any) -> None:
        """A module at a place; those behind it move on."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._modules.clear()
        for number, value in enumerate(modules):
            self._modules[str(number)] = value


class Sequential(NumberedModules):
    """Modules one after the other: each gets what the one before it returned."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def insert(self, index: int, module: Module) -> Sequential:
        """Puts a module before the one at `index`."""
        if not isinstance(module, Module):
            raise error(AssertionError, "insert", f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise error(IndexError, "insert", f"Index out of range: {index}", length=len(self))
        self._insert(index, module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Adds modules at the end."""
        for module in sequential:
            self.append(module)
        return self

    def _check_other(self, word: str, other: Any) -> None:
        if not isinstance(other, Sequential):
            rule = f"{word} operator supports only objects of Sequential class, but {type(other)} is given."
            raise error(ValueError, "Sequential", rule)

    def __add__(self, other: Any) -> Sequential:
        self._check_other("add", other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        self._check_other("add", other)
        for module in list(other):
            self.append(module)
        return self

    def _check_factor(self, factor: Any) -> None:
        if not isinstance(factor, int):
            rule = f"unsupported operand type(s) for *: {type(self)} and {type(factor)}"
            raise error(TypeError, "Sequential", rule)
        if factor <= 0:
            raise error(
                ValueError, "Sequential", f"Non-positive multiplication factor {factor} for {type(self)}"
            )

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        self._check_factor(other)
        for module in list(self) * (other - 1):
            self.append(module)
        return self


class ModuleList(NumberedModules):
    """A list whose modules are registered."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[self._name_at(idx)]

    def insert(self, index: int, module: Module) -> None:
        """Puts a module before the one at `index`."""
        self._insert(index, module)

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in list(checked_iterable("ModuleList.extend", modules)):
            self.append(module)
        return self

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Neighbours that print alike are printed once."""
        if not len(self):
            return f"{self._get_name()}()"
        lines, start = [], 0
        for text, group in groupby(repr(module) for module in self):
            count = len(list(group))
            label = f"({start}): " if count == 1 else f"({start}-{start + count - 1}): {count} x "
            lines.append(label + indented(text, 2))
            start += count
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary whose modules are registered."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Takes a module out and returns it."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds modules from a mapping or from pairs."""
        pairs = modules.items() if isinstance(modules, ModuleDict) else pairs_of("ModuleDict", modules)
        for key, module in pairs:
            self[key] = module


# Parameters ------------------------------------------------------------------------------------------------


def as_parameter(value: Any) -> Any:
    """Tensors become parameters, other values stay as they are."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def line_of(name: Any, value: Any, kind: str) -> str:
    """One value of a parameter container as text."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    word = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(extent) for extent in value.shape)
    return f"  ({name}): {word} containing: [{kind} of size {size}]"


class ParameterList(Module):
    """A list whose tensors are registered as parameters; other values are kept as they are."""

    _size: int

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[number] for number in range(len(self)))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return type(self)(self[number] for number in range(*idx.indices(len(self))))
        return getattr(self, str(position(self, idx)))

    def __setitem__(self, idx: Any, param: Any) -> None:
        setattr(self, str(position(self, idx)), as_parameter(param))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> Self:
        """Adds a value at the end."""
        number = self._size
        self._size += 1
        self[number] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds values at the end."""
        for value in list(checked_iterable("ParameterList.extend", values)):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n".join(
            line_of(number, value, str(value.dtype) if isinstance(value, Tensor) else "")
            for number, value in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise error(RuntimeError, "ParameterList", "ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary whose tensors are registered as parameters; other values are kept as they are."""

    _keys: dict[str, None]

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key: Any) -> str:
        if not isinstance(key, str):
            rule = (
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}')"
            )
            raise error(TypeError, "ParameterDict", rule)
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._key_to_attr(key)
        if name not in self._keys and hasattr(self, name):
            raise error(KeyError, "ParameterDict", f"attribute '{name}' already exists")
        self._keys[name] = None
        setattr(self, name, as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another dictionary with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is set to `default` first when it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another dictionary with one value for all keys."""
        return ParameterDict((key, default) for key in keys)

    def clear(self) -> None:
        """Removes all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Takes a value out and returns it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Takes the last pair out."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def keys(self) -> Iterable[str]:
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds values from a mapping or from pairs; a plain mapping is taken in the order of its keys."""
        if isinstance(parameters, (OrderedDict, ParameterDict)):
            pairs: Iterable = parameters.items()
        elif isinstance(parameters, Mapping):
            pairs = sorted(parameters.items())
        else:
            pairs = pairs_of("ParameterDict", parameters)
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: Any) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: Any) -> Any:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            line_of(key, value, value.type() if isinstance(value, Tensor) else "")
            for key, value in self.items()
        )

    def __call__(self, input: Any) -> Any:
        raise error(RuntimeError, "ParameterDict", "ParameterDict should not be called.")
