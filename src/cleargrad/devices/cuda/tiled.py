"""Calls that have kernels of tiles, written in Triton: what a program on a GPU asks when it meets one.

A call without a plan (another dtype, a width no kernel is made for, Triton not installed) is made of the parts that
devices/cuda/parts.py says. Read next: devices/cuda/flash.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleargrad.core.precision import Tf32
from cleargrad.devices.cuda import convolution, flash
from cleargrad.devices.cuda.triton_code import Layout, Plan, Written
from cleargrad.ops.record import Call, Value
from cleargrad.schedule.formulas import Buffer, Load, Number, contiguous, kind_of
from cleargrad.schedule.statements import Host, Product

# By op: what writes its kernels down, or gives None.
KERNELS: dict[str, Callable[[list[Layout | None], list[Layout], dict[str, Any]], Written | None]] = {
    "flash_attention": flash.attention,
    "flash_attention_gradient": flash.attention_gradient,
    "scaled_dot_product_flash_attention_for_cpu": flash.attention,
    "attention_gradient": flash.attention_gradient,
    "convolution": convolution.convolution,
    "convolution_adjoint_input": convolution.convolution_adjoint_input,
    "convolution_adjoint_weight": convolution.convolution_adjoint_weight,
}
WHOLE = frozenset(("scaled_dot_product_flash_attention_for_cpu", "attention_gradient"))  # which are fused ops
LINEAR = "linear"  # a fused op that is one product of narrow floats: cuBLASLt adds the bias before it rounds
ALIGNED = 16  # bytes, to a multiple of which such kernels expect their operands


def is_tiled(call: Call, architecture: int | None) -> bool:
    """Whether there are kernels for a call, which does not depend on how its operands lie in memory."""
    if architecture is None or call.op.name not in KERNELS:
        return False
    operands = [dense(x) if isinstance(x, Value) else None for x in call.operands]
    return KERNELS[call.op.name](operands, [dense(x) for x in call.results], settings_of(call)) is not None


def is_one_product(call: Call) -> bool:
    """Whether a linear layer needs no rounding between its product and its bias."""
    if call.op.name != LINEAR:
        return False
    bias, x, weight = call.operands
    shapes = [value.spec.shape for value in (bias, x, weight)]
    narrow = kind_of(x.spec.dtype.numpy) in ("float16", "bfloat16")
    return (
        narrow and len(shapes[1]) > 1 and shapes[0] == shapes[2][:1] and all(0 not in each for each in shapes)
    )


@dataclass
class Layer:
    """A linear layer as the product of matrices that it is."""

    product: Product
    bias: Load
    copies: list[tuple[Load, Load | Number]]

    @classmethod
    def of(cls, entry: Host) -> Layer | None:
        if entry.call.op.name != LINEAR:
            return None
        bias, x, weight = found = [
            in_place(*each) for each in zip(entry.operands, entry.call.operands, strict=True)
        ]
        turned = Load(weight.buffer, weight.shape[::-1], weight.strides[::-1], weight.offset, ())
        copies = [(new, old) for new, old in zip(found, entry.operands) if new is not old]
        return cls(Product(whole(entry.results[0]), x, turned), bias, copies)


def settings_of(call: Call) -> dict[str, Any]:
    """A call's attributes, and what a program may choose besides."""
    return {**call.attrs, "tf32": Tf32.convolutions} if call.op.name.startswith("convolution") else call.attrs


def dense(value: Value) -> Layout:
    shape = value.spec.shape
    return Layout(shape, contiguous(shape), kind_of(value.spec.dtype.numpy))


@dataclass
class Tiles:
    """How an entry of a schedule is made by such kernels."""

    entry: Host
    plan: Plan
    copies: list[
        tuple[Load, Load | Number]
    ]  # what is copied before, since it does not lie where kernels expect it

    @classmethod
    def of(cls, entry: Host, architecture: int | None) -> Tiles | None:
        if architecture is None or entry.call.op.name not in KERNELS:
            return None
        operands = [in_place(x, given) for x, given in zip(entry.operands, entry.call.operands, strict=True)]
        copies = [(new, old) for new, old in zip(operands, entry.operands) if new is not old]
        entry = Host(entry.call, tuple(operands), entry.results)
        given = [layout_of(x) if isinstance(x, Load) else None for x in operands]
        results = [Layout(x.shape, x.strides, kind_of(x.dtype)) for x in entry.results]
        written = KERNELS[entry.call.op.name](given, results, settings_of(entry.call))
        return None if written is None else cls(entry, written.plan(architecture), copies)

    def words(self, pointers: Sequence[tuple[str, int]]) -> list[tuple]:
        """The words of a kernel's arguments, as other kernels have them."""
        found: list[tuple] = []
        for kind, number in pointers:
            if kind == "operand":
                found.append(("address", self.entry.operands[number]))
            elif kind == "result":
                found.append(("address", whole(self.entry.results[number])))
            else:
                found.append(("work", number))
        return found


def is_aligned(load: Load) -> bool:
    """Whether memory is known to begin where kernels expect it: a program's own does, and so do inputs, of which
    those that do not are copied; tensors from outside may be parts of others."""
    return load.buffer.role != "outside" and load.offset * load.dtype.itemsize % ALIGNED == 0


def layout_of(load: Load) -> Layout:
    return Layout(load.shape, load.strides, kind_of(load.dtype))


def in_place(operand: Any, given: Any) -> Any:
    """An operand where kernels can read it."""
    if isinstance(operand, Number):
        return memory_for(given.spec.shape, operand.dtype)
    return apart(operand) if isinstance(operand, Load) and not is_aligned(operand) else operand


def apart(load: Load) -> Load:
    """A load of the same shape in memory of its own."""
    return memory_for(load.shape, load.dtype)


def memory_for(shape: tuple[int, ...], dtype: np.dtype) -> Load:
    return whole(Buffer(-1, shape, dtype, "inside", contiguous(shape)))


def whole(buffer: Buffer) -> Load:
    return Load(buffer, buffer.shape, buffer.strides, 0, ())
