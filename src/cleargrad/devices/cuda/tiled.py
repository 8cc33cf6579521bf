"""Calls that have kernels of tiles, written in Triton: what a program on a GPU asks when it meets one.

A call without a plan (another dtype, a width no kernel is made for, Triton not installed) is made of the parts that
devices/cuda/parts.py says. Read next: devices/cuda/flash.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cleargrad.devices.cuda.triton_code import Layout, Plan
from cleargrad.ops.record import Call, Value
from cleargrad.schedule.formulas import Buffer, Load, contiguous, kind_of
from cleargrad.schedule.statements import Host

PLANS: dict[str, Callable[[list[Layout | None], list[Layout], dict[str, Any], int], Plan | None]] = {}


def is_tiled(call: Call, architecture: int | None) -> bool:
    """Whether there are kernels for a call, which does not depend on how its operands lie in memory."""
    if architecture is None or call.op.name not in PLANS:
        return False
    operands = [dense(x) if isinstance(x, Value) else None for x in call.operands]
    return (
        PLANS[call.op.name](operands, [dense(x) for x in call.results], call.attrs, architecture) is not None
    )


def dense(value: Value) -> Layout:
    shape = value.spec.shape
    return Layout(shape, contiguous(shape), kind_of(value.spec.dtype.numpy))


def plan_of(entry: Host, architecture: int | None) -> Plan | None:
    """The kernels of an entry of a schedule."""
    if architecture is None or entry.call.op.name not in PLANS:
        return None
    operands = [layout_of(x) if isinstance(x, Load) else None for x in entry.operands]
    results = [Layout(x.shape, x.strides, kind_of(x.dtype)) for x in entry.results]
    return PLANS[entry.call.op.name](operands, results, entry.call.attrs, architecture)


def layout_of(load: Load) -> Layout:
    return Layout(load.shape, load.strides, kind_of(load.dtype))


def places_of(entry: Host, pointers: Sequence[tuple[str, int]]) -> list[tuple]:
    """The words of a kernel's arguments, as other kernels have them."""
    words: list[tuple] = []
    for kind, number in pointers:
        if kind == "operand":
            words.append(("address", entry.operands[number]))
        elif kind == "result":
            words.append(("address", whole(entry.results[number])))
        else:
            words.append(("work", number))
    return words


def whole(buffer: Buffer) -> Load:
    return Load(buffer, buffer.shape, buffer.strides, 0, ())
