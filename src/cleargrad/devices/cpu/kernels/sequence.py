"""Machine code that runs several kernels one after the other: what one thread does without a look at the others.

The arguments of unit u are a list of parts and how many they are; a part is a kernel, its arguments, and from which
to which of its units it goes. Read next: devices/cpu/team.py.
"""

from __future__ import annotations

from functools import cache

from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import Code, Val
from cleargrad.devices.cpu.team import RECORD

PARAMETERS = [Val("%args", "ptr"), Val("%lo", "i64"), Val("%hi", "i64"), Val("%scratch", "ptr")]


@cache
def kernel() -> Kernel:
    code = Code()
    arguments, low, high, scratch = PARAMETERS
    with code.loop(low, high) as unit:
        pair = code.at(arguments, code.mul(unit, code.integer(2)), "i64")
        parts, count = code.load(pair, "ptr"), code.load(code.at(pair, code.integer(1), "i64"), "i64")
        with code.loop(code.integer(0), count) as number:
            part = code.at(parts, code.mul(number, code.integer(RECORD)), "i64")
            function, words = (
                code.load(code.at(part, code.integer(field), "i64"), "ptr") for field in (0, 1)
            )
            begin, end = (code.load(code.at(part, code.integer(field), "i64"), "i64") for field in (2, 3))
            code.do(f"call void {function.name}({words}, {begin}, {end}, {scratch})")
    code.do("ret void")
    return Kernel(code.function("kernel", PARAMETERS), tuple(code.declared))
