"""For the tests of this folder: runs what was written for vectors on whole arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from cleargrad.devices.cpu.llvm.jit import Kernel, addresses
from cleargrad.devices.cpu.llvm.text import Code, Val, vector
from cleargrad.devices.cpu.llvm.vector_convert import ELEMENTS

NUMPY = {"bfloat16": np.dtype(np.uint16)}


def array_type(kind: str) -> np.dtype:
    """The NumPy type that shares memory with a dtype's values; bfloat16 is seen as its bits."""
    return NUMPY.get(kind) or np.dtype(kind)


def over_arrays(
    write: Callable[..., Val], kinds: list[str], result: str, width: int
) -> Callable[..., np.ndarray]:
    """The function of arrays that `write(code, *values)` computes, `width` elements at a time."""
    code = Code()
    pointers = [Val(f"%p{k}", "ptr") for k in range(len(kinds) + 1)]
    count = Val("%count", "i64")
    with code.loop(code.integer(0), count, width) as index:
        values = [load(code, pointer, index, kind, width) for pointer, kind in zip(pointers, kinds)]
        value = write(code, *values)
        assert value.type == vector(ELEMENTS[result], width)
        if result == "bool":
            value = code.cast("zext", value, "i8")
        code.store(value, code.at(pointers[-1], index, "i8" if result == "bool" else ELEMENTS[result]))
    code.do("ret void")
    text = code.function("kernel", [*pointers, count])
    (address,) = addresses([Kernel(text, tuple(code.declared))])
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers), ctypes.c_int64)(address)

    def call(*arrays: np.ndarray) -> np.ndarray:
        size = arrays[0].size
        room = -(-size // width) * width
        padded = [np.resize(array, room) for array in arrays]
        out = np.empty(room, array_type(result))
        function(*[array.ctypes.data for array in padded], out.ctypes.data, room)
        return out[:size]

    return call


def load(code: Code, pointer: Val, index: Val, kind: str, width: int) -> Val:
    element = "i8" if kind == "bool" else ELEMENTS[kind]
    value = code.load(code.at(pointer, index, element), vector(element, width))
    return code.compare("ne", value, code.const(0, value.type)) if kind == "bool" else value
