"""From an archive to objects: the pickle is run while threads read the storages it refers to.

Read next: serialization/safe.py.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.errors import error
from cleargrad.serialization.allowed import Allowed
from cleargrad.serialization.archive import Reader, corrupted
from cleargrad.serialization.rebuilding import Loaded
from cleargrad.serialization.unpickling import Machine
from cleargrad.storage import UntypedStorage


def load_archive(reader: Reader, map_location: Any, weights_only: bool, mapped_from: Any) -> Any:
    """The object in an archive; with `mapped_from`, a path, storages are mapped instead of read."""
    content = reader.read("data.pkl")
    names = reader.names("data/")
    order = reader.read("byteorder").decode() if reader.has("byteorder") else "little"
    if mapped_from is not None:
        memories: Any = contextlib.nullcontext(reader.mapping(mapped_from))
    else:
        memories = reader.reading(names)
    with memories as memory_of:
        storages = Storages(set(names), memory_of, map_location, order != sys.byteorder)
        return Machine(Allowed(weights_only), storages.find).run(content)


class Storages:
    """The storages of a file, by the number under which the pickle refers to them."""

    def __init__(self, names: set[str], memory_of: Callable, map_location: Any, swapped: bool):
        self.names, self.memory_of = names, memory_of
        self.map_location, self.swapped = map_location, swapped
        self.found: dict[str, Loaded] = {}

    def find(self, identity: tuple) -> Loaded:
        _, kind, key, location, _ = identity
        if kind is UntypedStorage:
            kind = dtypes.uint8
        if not isinstance(kind, dtypes.dtype) or not isinstance(key, str) or not isinstance(location, str):
            raise ValueError("a tensor's storage is described wrongly")
        found = self.found.get(key)
        if found is None:
            name = f"data/{key}"
            if name not in self.names:
                raise corrupted(f"the checkpoint refers to the record {name!r}, which is missing")
            memory = self.memory_of(name)
            device = device_for(memory, location, self.map_location)
            if self.swapped and kind.itemsize > 1:
                width = kind.itemsize // 2 if kind.is_complex else kind.itemsize
                memory.view(f"u{width}").byteswap(inplace=True)
            found = self.found[key] = Loaded(memory, kind, device)
        return found


def device_for(memory: Any, location: str, map_location: Any) -> devices.device:
    """Where a storage goes; refused if that device is not here."""
    if isinstance(map_location, dict):
        location = map_location.get(location, location)
    elif isinstance(map_location, (str, devices.device)):
        location = str(map_location)
    elif callable(map_location):
        found = map_location(UntypedStorage(memory), location)
        if found is not None:
            return getattr(found, "device", devices.CPU)
    elif map_location is not None:
        rule = f"map_location is a device, a dict or a function, not {type(map_location).__name__}"
        raise error(TypeError, "load", rule)
    where = devices.device(location)
    if where.type != "cpu" and where.type not in devices.drivers:
        name = where.type.upper()
        rule = (
            f"Attempting to deserialize object on a {name} device but "
            f"torch.{where.type}.is_available() is False."
        )
        fix = "use torch.load with map_location=torch.device('cpu') to map your storages to the CPU"
        raise error(RuntimeError, "load", rule, fix=fix)
    return devices.check(where)
