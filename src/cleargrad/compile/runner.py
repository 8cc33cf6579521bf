"""The way into a program at every call: does it fit, what is bound, what is done with its outputs.

This is what a compiled call costs besides computing, so it is written flat. An entry fills in the fields.
Read next: compile/program.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from cleargrad.compile.facts import holds, same
from cleargrad.compile.structures import key_of
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import GRAD, SPECIAL, gate, mode, structure
from cleargrad.core.tensor import Tensor, cell_of, tick, wrap

Find = Callable[[Any], Any]  # from the tensors of a call, and what came out of it, to a tensor


class Runner:
    """A program, the facts it depends on, and its effects."""

    program: Any
    backward: Any = None
    script: Any = None  # what an observer heard while it was recorded
    lock: threading.Lock
    key: Any

    # When it fits
    version: int
    default: Any  # dtype
    grad: bool
    flat: bool  # whether the arguments are tensors, nothing else
    plain: bool  # and have no part in a graph
    layouts: list[tuple]
    watched: list[tuple]  # objects, what to ask them, and the answer
    names: list[tuple]  # dictionaries, keys, and what is there
    items: list[tuple]  # the same for lists
    cells: list[tuple]
    checks: list[Callable[[], bool]]
    looks: list[tuple[Find, bool]]  # leaves, and whether their gradient is None
    bound: list[list]  # outside tensors and the memory they had

    # What is bound and done
    unique: list[int]  # arguments that are the program's first inputs
    readings: list[list]  # optimizers, groups, getters, what they gave, options
    option_arrays: list[np.ndarray]
    held: list[tuple[Tensor, Find, bool]]  # stand-ins for gradients, the leaves, whether they are written
    written: list[Tensor]
    written_roots: set[int] | None = None  # their memory; None until it is needed
    written_arguments: list[tuple[int, int]]
    clears: list[Find]
    sets: list[tuple[Find, int]]
    own_sets: list[list]  # leaves that are the same at every call, outputs, and the gradients set last
    puts: list[tuple[Callable, int]]
    finders: list[tuple[int, Find]]  # parts of the result, in the order in which they can be found
    build: Callable
    doubles: list[int] | None

    def fits(self, args: tuple, kwargs: dict) -> bool:
        """Whether the program is right for a call like the last one; quick for plain tensors."""
        if gate.how == GRAD:
            if not self.grad:
                return False
        elif mode.how == SPECIAL or mode.grad is not self.grad:
            return False
        if kwargs or not self.plain or len(args) != len(self.layouts):
            return False
        seen = None
        for arg, layout in zip(args, self.layouts):
            if type(arg) is not Tensor or arg._edge is not None:
                return False
            data = arg._data
            if data is seen or (data.shape, data.dtype, data.strides) != layout:
                return False
            seen = data
        if len(args) > 2 and len({id(arg._data) for arg in args}) != len(args):
            return False
        return self.holds(args)

    def holds(self, tensors: Any) -> bool:
        """Whether everything else is as it was when the program was recorded."""
        if self.version != structure.version and not self.recheck():
            return False
        for table, name, value in self.names:
            if table.get(name) is not value and not holds(table, name, value):
                return False
        for cell, value in self.cells:
            if cell.cell_contents is not value and not same(cell.cell_contents, value):
                return False
        for table, name, value in self.items:
            if not holds(table, name, value):
                return False
        for check in self.checks:
            if not check():
                return False
        for find, empty in self.looks:
            if (find(tensors)._grad is None) is not empty:
                return False
        for pair in self.bound:
            if pair[0]._data is not pair[1]:
                if not rebound(pair):
                    return False
                self.written_roots = None
        if self.written_arguments:
            if self.meets(tensors):
                return False
        elif self.written:
            roots = self.written_roots or self.find_roots()
            for tensor in tensors:
                data = tensor._data
                if (id(data) if data.base is None else root_of(data)) in roots:
                    return False  # an argument lies in memory that the program writes
        return not self.held or all(
            alike(holder._data, find(tensors)._grad._data) for holder, find, _ in self.held
        )

    def meets(self, tensors: Any) -> bool:
        """Whether an argument that is written has memory in common with others, or with tensors from outside."""
        roots = [root_of(tensor._data) for tensor in tensors]
        known = [root_of(array) for _, array in self.bound]
        for position, _ in self.written_arguments:
            own = tensors[position]._data
            if roots[position] in known:
                return True
            for root, other in zip(roots, tensors):
                if root == roots[position] and other._data is not own:
                    return True
        return not self.find_roots().isdisjoint(roots)

    def find_roots(self) -> set[int]:
        """The memory of tensors from outside that the program writes."""
        self.written_roots = {root_of(tensor._data) for tensor in self.written}
        return self.written_roots

    def recheck(self) -> bool:
        version = structure.version
        if self.default is not dtypes.get_default_dtype():
            return False
        if any(facts(thing) != before for thing, facts, before in self.watched):
            return False
        self.version = version
        return True

    def run(self, args: tuple, kwargs: dict) -> Any:
        tensors: Any = args
        if not self.flat:
            key_of(args, tensors := [])
            key_of(kwargs, tensors)
        with self.lock:
            for reading in self.readings:
                optimizer, group, get, last, _ = reading
                now = get(optimizer.param_groups[group])
                if now is not last and now != last:
                    self.read(reading, now)
            for holder, find, _ in self.held:
                holder._data = find(tensors)._grad._data
            inputs = [tensors[position]._data for position in self.unique]
            inputs += self.option_arrays
            outputs = self.program.run(inputs, self.places())
            if self.doubles is None or self.doubles:
                self.part(outputs)
        results = None
        if self.backward is not None:
            results = self.backward.tie(tensors, self.unique, inputs, outputs)
        return self.deliver(tensors, outputs, results)

    def read(self, reading: list, now: Any) -> None:
        reading[3] = now
        for option in reading[4]:
            option.tensor._data[...] = option.read()

    def places(self) -> list[np.ndarray | None] | None:
        """The memory of gradients that were set by the last run and that nobody else holds is used again."""
        if not self.own_sets:
            return None
        places = self.empty_places.copy()
        for entry in self.own_sets:
            leaf, number, last = entry
            if last is None:
                continue
            if (
                leaf._grad is last
                and getrefcount(last) == GRAD_HOLDERS
                and getrefcount(last._data) == ARRAY_HOLDERS
            ):
                places[number] = last._data
            else:
                entry[2] = None
            last = None
        return places

    def part(self, outputs: list[np.ndarray]) -> None:
        """Outputs that are one value get memory of their own; which they are is found at the first run."""
        if self.doubles is None:
            ids = [id(array) for array in outputs]
            self.doubles = [k for k, each in enumerate(ids) if ids.index(each) != k]
        for number in self.doubles:
            outputs[number] = outputs[number].copy()

    def deliver(self, tensors: Any, outputs: list[np.ndarray], results: Any) -> Any:
        """Everything that happens outside of the program's memory."""
        now = tick()
        for tensor in self.written:
            cell = tensor._ver
            cell[0] = now
            cell[1] += 1
        for _, find, written in self.held:
            if written:
                changed(find(tensors)._grad)
        for position, number in self.written_arguments:
            np.copyto(tensors[position]._data, outputs[number])
            changed(tensors[position])
        for find in self.clears:
            find(tensors)._grad = None
        for entry in self.own_sets:
            if entry[2] is None:
                entry[0]._grad = entry[2] = wrap(outputs[entry[1]])
        for find, number in self.sets:
            find(tensors)._grad = wrap(outputs[number])
        for put, number in self.puts:
            put(wrap(outputs[number]))
        if self.single is not None:
            return self.single((tensors, outputs, results))
        parts: list[Any] = [None] * len(self.finders)
        found = (tensors, outputs, results, parts)
        for position, find in self.finders:
            parts[position] = find(found)
        return self.build(parts)


def holders() -> tuple[int, int]:
    """How many references `places` sees to a gradient that only its leaf holds, and to its array."""
    entry: list[Any] = [wrap(np.zeros(1)), 0, wrap(np.zeros(1))]
    entry[0]._grad = entry[2]
    _, _, last = entry
    return getrefcount(last), getrefcount(last._data)


GRAD_HOLDERS, ARRAY_HOLDERS = holders()


def changed(tensor: Tensor) -> None:
    """Memory that a program has written has another version."""
    cell = cell_of(tensor)
    cell[0] = tick()
    cell[1] += 1


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.strides == other.strides


def root_of(array: np.ndarray) -> int:
    """What stands for the memory that an array is a view of."""
    base = array.base
    while type(base) is np.ndarray:
        array, base = base, base.base
    return id(array) if base is None else id(base)


def rebound(pair: list) -> bool:
    """A tensor that has other memory than last time, of the same layout, is bound again."""
    tensor, array = pair
    if not alike(tensor._data, array):
        return False
    pair[1] = tensor._data
    return True
