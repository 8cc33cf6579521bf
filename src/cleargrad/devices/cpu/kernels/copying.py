"""Machine code that copies memory as it is. Read next: devices/cpu/programs/program.py."""

from __future__ import annotations

from functools import cache

from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import Code, Val

PARAMETERS = [Val("%args", "ptr"), Val("%lo", "i64"), Val("%hi", "i64"), Val("%scratch", "ptr")]
PIECE = 1 << 14  # bytes that are one unit of work


def units(size: int) -> int:
    return -(-size // PIECE)


@cache
def kernel() -> Kernel:
    """Its arguments are two addresses, to and from, and a number of bytes."""
    code = Code()
    place, source = (code.load(code.at(PARAMETERS[0], code.integer(k), "i64"), "ptr") for k in (0, 1))
    size = code.load(code.at(PARAMETERS[0], code.integer(2), "i64"), "i64")
    start = code.mul(PARAMETERS[1], code.integer(PIECE))
    beyond = code.mul(PARAMETERS[2], code.integer(PIECE))
    end = code.select(code.compare("slt", beyond, size), beyond, size)
    to, off = (code.at(pointer, start, "i8") for pointer in (place, source))
    code.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    code.do(f"call void @llvm.memcpy.p0.p0.i64({to}, {off}, {code.sub(end, start)}, i1 false)")
    code.do("ret void")
    return Kernel(code.function("kernel", PARAMETERS), tuple(code.declared))
