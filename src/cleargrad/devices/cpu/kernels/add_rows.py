"""Machine code that adds rows into chosen places of a table: the gradient of an embedding.

A place may be chosen more than once, so all rows are walked in order; threads share the columns instead. Read next:
schedule/lifetimes.py.
"""

from __future__ import annotations

from functools import cache

from cleargrad.devices.cpu.llvm.jit import Kernel, lanes
from cleargrad.devices.cpu.llvm.text import Code, Val, vector

PARAMETERS = [Val("%args", "ptr"), Val("%lo", "i64"), Val("%hi", "i64"), Val("%scratch", "ptr")]
BLOCK = 4  # vectors of columns that are one unit of work
TABLE, ROWS, PLACES, ERROR, COUNT, WIDTH, LENGTH = range(7)  # the arguments


def units(columns: int) -> int:
    return -(-columns // (BLOCK * lanes()))


@cache
def kernel(element: str) -> Kernel:
    """table[places[i]] += rows[i] for every i, in the columns of some units."""
    code, width = Code(), lanes()
    table, rows, places, error = (
        code.load(code.at(PARAMETERS[0], code.integer(k), "i64"), "ptr") for k in (TABLE, ROWS, PLACES, ERROR)
    )
    count, columns, length = (
        code.load(code.at(PARAMETERS[0], code.integer(k), "i64"), "i64") for k in (COUNT, WIDTH, LENGTH)
    )
    block = code.integer(BLOCK * width)
    first, beyond = code.mul(PARAMETERS[1], block), code.mul(PARAMETERS[2], block)
    end = code.select(code.compare("slt", beyond, columns), beyond, columns)
    whole = code.add(first, code.binary("and", code.sub(end, first), code.integer(-width)))
    with code.loop(code.integer(0), count) as row:
        place = code.load(code.at(places, row, "i64"), "i64")
        zero = code.integer(0)
        place = code.select(code.compare("slt", place, zero), code.add(place, length), place)
        bad = code.compare("uge", place, length)
        with code.when(bad):
            code.do(f"store i64 1, ptr {error.name}")
        with code.when(code.binary("xor", bad, Val("true", "i1"))):
            target = code.at(table, code.mul(place, columns), element)
            source = code.at(rows, code.mul(row, columns), element)
            for start, stop, step in ((first, whole, width), (whole, end, 1)):
                with code.loop(start, stop, step) as column:
                    type = vector(element, step)
                    here = code.at(target, column, element)
                    added = code.load(code.at(source, column, element), type)
                    code.store(code.add(code.load(here, type), added), here)
    code.do("ret void")
    return Kernel(code.function("kernel", PARAMETERS), tuple(code.declared))
