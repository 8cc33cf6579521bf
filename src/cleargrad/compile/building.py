"""Recording a trace as a graph: its steps are made once more, on stand-ins for tensors.

Every act is recorded once more, on stand-ins for the tensors of the trace. What repeats itself (the same layer, the
same gradient, the same rule for many parameters) is recorded once for operands of one layout, and copied. Read
next: compile/ending.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleargrad.compile.acts import Act
from cleargrad.compile.repeat import Template, apply, record_updates, repeats
from cleargrad.core.layout import ghost
from cleargrad.core.mode import mode
from cleargrad.core.pace import give_way
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.ops.apply import check_operands, link
from cleargrad.ops.op import OPS, Op
from cleargrad.ops.record import Call, Recorder, Value, untouched, window_of


@dataclass
class Option:
    """An option of an optimizer's group, or a part of one: a number that is read again at every run."""

    optimizer: Any  # a weak reference
    group: int
    name: str
    part: int | None
    array: np.ndarray
    last: float | None = None  # what was read last

    @property
    def title(self) -> str:
        """Its name in reports: `lr`, `betas.0`."""
        parts = [self.name, self.part, f"group{self.group}" if self.group else None]
        return ".".join(str(part) for part in parts if part is not None)

    def read(self) -> None:
        value = self.optimizer().param_groups[self.group][self.name]
        if self.part is not None:
            value = value[self.part]
        if value is self.last:
            return
        self.array[...] = float(value)
        self.last = value if type(value) is float else None


class Building(Recorder):
    """A recorder of acts."""

    def __init__(self, whole: frozenset[str]) -> None:
        super().__init__(whole)
        self.bound: set[int] = set()  # ids of the arrays of tensors that are bound by reference
        self.templates: dict[tuple, Template] = {}
        self.options: dict[tuple, Option] = {}
        self.option_tensors: dict[tuple, Tensor] = {}
        self.groups: dict[Act, tuple] = {}  # for steps of optimizers: which, and its options

    def argument(self, tensor: Tensor) -> None:
        """A tensor that is another one in every run."""
        self.graph.inputs.append(self.name(tensor))
        self.graph.input_arrays.append(tensor._data)

    def option(self, optimizer: Any, group: int, name: str, part: int | None) -> Tensor:
        key = (id(optimizer), group, name, part)
        if key not in self.options:
            array = np.array(0.0)
            self.options[key] = Option(weakref.ref(optimizer), group, name, part, array)
            self.option_tensors[key] = tensor = wrap(array)
            self.argument(tensor)
        return self.option_tensors[key]

    def refer(self, tensor: Tensor) -> Value:
        """A view of memory that is written is taken from what that memory is at the time."""
        base = tensor._base
        if base is None or base._data is tensor._data:
            if id(tensor._data) in self.bound:
                return super().refer(tensor)
            value = self.name(tensor)  # a rule has made it of nothing but numbers
            self.graph.constants.append((value, tensor._data.copy()))
            return value
        source = self.value(base)
        value = self.name(tensor)
        self.graph.calls.append(Call(OPS["as_strided"], (source,), window_of(tensor, base), (value,)))
        return value

    def become(self, owner: Tensor, value: Value) -> None:
        """Notes that a whole memory was given a new value."""
        key = id(owner._data)
        self.writes[key] = self.writes.get(key, 0) + 1
        self.set(owner, value)
        if key in self.referred:
            self.written[key] = owner

    def update(self, optimizer: Any, options: dict[str, Any], items: list) -> None:
        """A rule that treats elements by themselves is recorded once."""
        if repeats(optimizer):
            record_updates(self, optimizer, options, items)
        else:
            for item in items:
                apply(optimizer, options, item)
                give_way()

    # What repeats itself -----------------------------------------------------------------------------------

    def call_parts(self, op: Op, operands: tuple, attrs: dict[str, Any]) -> Any:
        check_operands(op, operands)
        spec = op.spec(*operands, **attrs)
        outs = self.repeated_record(
            lambda: self.parts_of(op, operands, attrs, spec), operands, (op, described(attrs))
        )
        arrays = [out._data for out in outs]
        return link(op, operands, attrs, arrays[0] if op.outputs == 1 else arrays, mode.grad)

    def repeated(self, function: Callable, *operands: Any) -> tuple:
        return tuple(self.repeated_record(lambda: function(*operands), operands, (function,)))

    def repeated_record(self, record: Callable[[], Sequence], operands: Sequence, key: tuple) -> Sequence:
        """What a function gives. Its calls are copied for a key without None and operands laid out as before."""
        sources = [self.value(x) for x in operands if isinstance(x, Tensor)]
        if None in key or mode.grad:
            return record()
        whole = (key, *map(layout, operands), *map(sources.index, sources))
        template = self.templates.get(whole)
        if template is not None:
            return [
                None if value is None else self.tensor_of(value) for value in template.copied(self, sources)
            ]
        template = Template(self, sources)
        outs = record()
        values = [None if out is None else self.value(out) for out in outs]
        apart = all(out is None or out._data.flags.c_contiguous for out in outs)
        if apart and template.is_complete(self, values):
            self.templates[whole] = template
        return outs

    def tensor_of(self, value: Value) -> Tensor:
        """A tensor that stands for a value."""
        tensor = wrap(untouched(ghost(value.spec.shape, value.spec.dtype.numpy)))
        self.set(tensor, value)
        return tensor


def described(attrs: dict[str, Any] | None) -> str | None:
    """Attributes as text; None for those that text may not tell apart."""
    if not attrs:
        return ""
    return None if any(isinstance(value, (np.ndarray, Tensor)) for value in attrs.values()) else repr(attrs)


def layout(operand: Any) -> Any:
    """All that a recorded function may see of an operand."""
    if not isinstance(operand, Tensor):
        return repr(operand)
    data = operand._data
    return data.shape, data.dtype, data.strides
