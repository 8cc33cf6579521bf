"""NumPy's machinery around our own instructions: ufuncs whose inner loops are written as kernels are.

A call on a small array and a compiled program must give the same bits, so that it never matters which of them
ran. NumPy's exponentials, sums and products round in an order of their own. So calls that NumPy makes quickly
go through ufuncs that NumPy calls, with inner loops that come from here: functions by the instructions of
devices/cpu/llvm/vector_math.py, reductions and products in the one order that all kernels keep to:

  products   k after k, each multiplied and added with one rounding, from zero
  rows       lane by lane along the last reduced dimension, lanes joined pairwise at the end
  columns    row after row, in blocks whose sums are added up, so that errors do not grow with the number of rows

A machine without LLVM has no programs either, and NumPy's own functions do. Read next: devices/cpu/native.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from cleargrad.devices.cpu.llvm.jit import Kernel, addresses, host, lanes, named
from cleargrad.devices.cpu.llvm.reading import read
from cleargrad.devices.cpu.llvm.text import SIZES, Code, Val, element_of, vector, width_of
from cleargrad.expr.expr import Var, primitive

ELEMENTS = {"float32": "float", "float64": "double"}
LETTERS = (np.dtype(np.float32).num, np.dtype(np.float64).num)
PARAMETERS = [Val(name, "ptr") for name in ("%args", "%dims", "%steps", "%data")]
ABREAST = 4  # vectors at a time, where sums would otherwise wait for each other
ROWS = 4  # of a product that are computed together
BLOCK = 256  # rows of a column that are joined in order
ROOM = 4096  # elements of a right operand that are put in order on the stack


class Loop(Code):
    """The inner loop of a ufunc: NumPy hands over addresses, extents and steps in bytes."""

    def pointer(self, number: int) -> Val:
        return self.load(self.at(PARAMETERS[0], self.integer(number), "ptr"), "ptr")

    def extent(self, number: int) -> Val:
        return self.load(self.at(PARAMETERS[1], self.integer(number), "i64"), "i64")

    def step(self, number: int) -> Val:
        return self.load(self.at(PARAMETERS[2], self.integer(number), "i64"), "i64")

    def behind(self, pointer: Val, index: Val, step: Val) -> Val:
        """So many steps of bytes behind a place."""
        return self.at(pointer, self.mul(index, step), "i8")

    def equal(self, step: Val, size: int) -> Val:
        return self.compare("eq", step, self.integer(size))

    def otherwise(self, condition: Val) -> Val:
        return self.binary("xor", condition, Val("true", "i1"))

    def finished(self) -> Kernel:
        self.do("ret void")
        text = self.function("kernel", PARAMETERS, notes="#0 ")
        return Kernel(text, (*self.declared, "attributes #0 = { nounwind }"))

    def keep_flags(self) -> Callable[[], None]:
        """NumPy warns of exceptions that vectors only seem to meet: both sides of a choice are computed."""
        if "x86" not in host_triple():
            return lambda: None
        place = self.slot("i32")
        self.declared.update(f"declare void @llvm.x86.sse.{name}(ptr)" for name in ("stmxcsr", "ldmxcsr"))
        self.do(f"call void @llvm.x86.sse.stmxcsr({place})")
        return lambda: self.do(f"call void @llvm.x86.sse.ldmxcsr({place})")


@cache
def host_triple() -> str:
    import llvmlite.binding as llvm

    host()
    return llvm.get_default_triple()


# Functions -------------------------------------------------------------------------------------------------


@named
def function_loop(name: str, operands: int, kind: str) -> Kernel:
    """A primitive of scalar expressions, element by element."""
    code, element = Loop(), ELEMENTS[kind]
    size, width = SIZES[element], lanes()
    tree = primitive(name, operands)(*[Var(f"x{k}", k) for k in range(operands)])
    restore = code.keep_flags()
    count = code.extent(0)
    places = [code.pointer(number) for number in range(operands + 1)]
    steps = [code.step(number) for number in range(operands + 1)]
    dense = Val("true", "i1")
    for step in steps:
        dense = code.binary("and", dense, code.equal(step, size))
    whole = code.select(dense, code.binary("and", count, code.integer(-width)), code.integer(0))
    for begin, end, together in ((code.integer(0), whole, width), (whole, count, 1)):
        with code.loop(begin, end, together) as index:
            here = [code.behind(place, index, step) for place, step in zip(places, steps, strict=True)]
            values = [code.load(place, vector(element, together)) for place in here[:-1]]
            code.store(read(code, tree, values, kind), here[-1])
    restore()
    return code.finished()


# Reductions ------------------------------------------------------------------------------------------------


def joined(code: Code, name: str, kind: str, a: Val, b: Val) -> Val:
    return read(code, primitive(name, 2)(Var("x", 0), Var("y", 1)), [a, b], kind)


def across(code: Code, x: Val, join: Callable[[Val, Val], Val]) -> Val:
    """The lanes of a vector, joined pairwise: the first half with the second, until one is left."""
    while width_of(x.type) > 1:
        half = width_of(x.type) // 2
        if half == 1:
            low, high = code.lane(x, 0), code.lane(x, 1)
        else:
            type = vector(element_of(x.type), half)
            low, high = (
                code.pure(
                    type, f"shufflevector {x}, {x.type} poison, <{half} x i32> <{numbers(first, half)}>"
                )
                for first in (0, half)
            )
        x = join(low, high)
    return x


def numbers(first: int, count: int) -> str:
    return ", ".join(f"i32 {first + lane}" for lane in range(count))


@named
def rows_loop(name: str, start: float, kind: str) -> Kernel:
    """(m, n) -> (): one number of n columns m times over, in the order of devices/cpu/programs/loops.py's walks."""
    code, element = Loop(), ELEMENTS[kind]
    size, width = SIZES[element], lanes()
    wide = vector(element, width)

    def join(a: Val, b: Val) -> Val:
        return joined(code, name, kind, a, b)

    restore = code.keep_flags()
    outer, m, n = (code.extent(number) for number in range(3))
    step_in, step_out, row_step, column_step = (code.step(number) for number in range(4))
    dense = code.equal(column_step, size)
    together = code.compare("eq", code.binary("urem", n, code.integer(ABREAST * width)), code.integer(0))
    whole = code.binary("and", n, code.integer(-width))
    banks = code.select(together, n, code.integer(0))
    with code.loop(code.integer(0), outer) as index:
        source = code.behind(code.pointer(0), index, step_in)
        totals = [code.slot(wide, code.const(start, wide)) for _ in range(ABREAST)]
        thin = code.slot(element, code.const(start, element))

        def vector_at(row: Val, column: Val) -> Val:
            """Neighbours, or elements that lie apart, as one vector."""
            place = code.behind(row, column, column_step)
            found = code.slot(wide)
            with code.when(dense):
                code.set(found, code.load(place, wide))
            with code.when(code.otherwise(dense)):
                value = Val("poison", wide)
                for lane in range(width):
                    one = code.load(code.behind(place, code.integer(lane), column_step), element)
                    value = code.now(wide, f"insertelement {value}, {one}, i32 {lane}")
                code.set(found, value)
            return code.get(found, wide)

        with code.loop(code.integer(0), m) as number:
            row = code.behind(source, number, row_step)
            with code.loop(code.integer(0), banks, ABREAST * width) as column:
                for bank, total in enumerate(totals):
                    value = vector_at(row, code.add(column, code.integer(bank * width)))
                    code.set(total, join(code.get(total, wide), value))
            with code.loop(banks, whole, width) as column:
                code.set(totals[0], join(code.get(totals[0], wide), vector_at(row, column)))
            with code.loop(whole, n) as column:
                value = code.load(code.behind(row, column, column_step), element)
                code.set(thin, join(code.get(thin, element), value))
        parts = [code.get(total, wide) for total in totals]
        first = across(code, parts[0], join)
        while len(parts) > 1:
            parts = [join(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        total = code.select(together, across(code, parts[0], join), first)
        uneven = code.compare("ne", whole, n)
        total = code.select(uneven, join(total, code.get(thin, element)), total)
        code.store(total, code.behind(code.pointer(1), index, step_out))
    restore()
    return code.finished()


@contextmanager
def blocks(code: Code, rows: Val) -> Iterator[tuple[Val, Val]]:
    """A loop over blocks of rows: the first row of one, and where it ends."""
    with code.loop(code.integer(0), rows, BLOCK) as first:
        beyond = code.add(first, code.integer(BLOCK))
        yield first, code.select(code.compare("slt", beyond, rows), beyond, rows)


@named
def columns_loop(name: str, start: float, kind: str) -> Kernel:
    """(n, k) -> (k): every column by itself, row after row."""
    code, element = Loop(), ELEMENTS[kind]
    size, width = SIZES[element], lanes()
    restore = code.keep_flags()
    outer, rows, columns = (code.extent(number) for number in range(3))
    step_in, step_out, row_step, column_step, place_step = (code.step(number) for number in range(5))
    dense = code.binary("and", code.equal(column_step, size), code.equal(place_step, size))
    wide = code.select(dense, code.binary("and", columns, code.integer(-width)), code.integer(0))
    broad = code.select(
        dense, code.mul(code.binary("udiv", columns, code.integer(ABREAST * width)), code.integer(ABREAST * width)),
        code.integer(0),
    )  # fmt: skip
    spans = ((code.integer(0), broad, width, ABREAST), (broad, wide, width, 1), (wide, columns, 1, 1))
    with code.loop(code.integer(0), outer) as index:
        source = code.behind(code.pointer(0), index, step_in)
        place = code.behind(code.pointer(1), index, step_out)
        for begin, end, together, banks in spans:
            type = vector(element, together)
            with code.loop(begin, end, together * banks) as column:
                totals = [code.slot(type, code.const(start, type)) for _ in range(banks)]
                first = code.behind(source, column, column_step)

                def join(a: Val, b: Val) -> Val:
                    return joined(code, name, kind, a, b)

                with blocks(code, rows) as (begin_row, end_row):
                    parts = [code.slot(type, code.const(start, type)) for _ in totals]
                    with code.loop(begin_row, end_row) as row:
                        line = code.behind(first, row, row_step)
                        for bank, part in enumerate(parts):
                            value = code.load(code.at(line, code.integer(bank * together), element), type)
                            code.set(part, join(code.get(part, type), value))
                    for total, part in zip(totals, parts, strict=True):
                        code.set(total, join(code.get(total, type), code.get(part, type)))
                target = code.behind(place, column, place_step)
                for bank, total in enumerate(totals):
                    code.store(code.get(total, type), code.at(target, code.integer(bank * together), element))
    restore()
    return code.finished()


# Products --------------------------------------------------------------------------------------------------


@named
def product_loop(kind: str) -> Kernel:
    """(m, k), (k, n) -> (m, n): for matrices so small that tiles and threads do not pay."""
    code, element = Loop(), ELEMENTS[kind]
    size, width = SIZES[element], lanes()
    outer, m, depth, n = (code.extent(number) for number in range(4))
    steps = [code.step(number) for number in range(9)]
    left_row, left_k, right_k, right_column, place_row, place_column = steps[3:]
    room = code.slot(f"[{ROOM} x {element}]")
    dense = code.equal(right_column, size)
    fits = code.compare("sle", code.mul(depth, n), code.integer(ROOM))
    ordered = code.binary("and", code.otherwise(dense), fits)
    near = code.binary("and", code.binary("or", dense, ordered), code.equal(place_column, size))
    whole = code.select(near, code.binary("and", n, code.integer(-width)), code.integer(0))
    along = code.select(ordered, code.mul(n, code.integer(size)), right_k)
    apart = code.select(ordered, code.integer(size), right_column)
    last = code.sub(m, code.integer(1))
    with code.loop(code.integer(0), outer) as index:
        left, right, place = (code.behind(code.pointer(k), index, steps[k]) for k in range(3))
        zero = code.integer(0)
        with code.when(ordered), code.loop(zero, n) as column, code.loop(zero, depth) as k:
            source = code.behind(code.behind(right, column, right_column), k, right_k)
            code.store(code.load(source, element), code.at(room, code.add(code.mul(k, n), column), element))
        right = code.select(ordered, room, right)
        with code.loop(code.integer(0), m, ROWS) as row:
            # Beyond the last row the last one is computed again, to the same place.
            lines = [
                code.intrinsic("smin", "i64", code.add(row, code.integer(more)), last) for more in range(ROWS)
            ]
            starts = [code.behind(left, line, left_row) for line in lines]
            targets = [code.behind(place, line, place_row) for line in lines]
            for begin, end, together in ((code.integer(0), whole, width), (whole, n, 1)):
                type = vector(element, together)
                with code.loop(begin, end, together) as column:
                    totals = [code.slot(type, code.const(0, type)) for _ in range(ROWS)]
                    first = code.behind(right, column, apart)
                    with code.loop(code.integer(0), depth) as k:
                        value = code.load(code.behind(first, k, along), type)
                        for start, total in zip(starts, totals, strict=True):
                            factor = code.load(code.behind(start, k, left_k), element)
                            wide = code.splat(factor, together)
                            code.set(total, code.fma(wide, value, code.get(total, type)))
                    for target, total in zip(targets, totals, strict=True):
                        code.store(code.get(total, type), code.behind(target, column, place_column))
    return code.finished()


# What NumPy makes of loops ---------------------------------------------------------------------------------

_kept: list[Any] = []  # NumPy keeps addresses of these, not the objects


@cache
def interface() -> Any:
    """PyUFunc_FromFuncAndDataAndSignature, from NumPy's table of functions."""
    from numpy._core import _multiarray_umath as home

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(home._UFUNC_API, None), ctypes.POINTER(ctypes.c_void_p))
    whole, text = ctypes.c_int, ctypes.c_char_p
    place = ctypes.c_void_p
    kinds = (place, place, place, whole, whole, whole, whole, text, text, whole, text)
    return ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(table[31])


def ufunc(name: str, loops: Sequence[Kernel], operands: int, signature: str | None = None) -> np.ufunc:
    """A ufunc with a loop for float32 and one for float64."""
    functions = (ctypes.c_void_p * len(loops))(*addresses(loops))
    data = (ctypes.c_void_p * len(loops))()
    letters = [letter for letter in LETTERS[: len(loops)] for _ in range(operands + 1)]
    types = (ctypes.c_char * len(letters))(*letters)
    texts = (
        name.encode(),
        b"See devices/cpu/kernels/ufuncs.py.",
        None if signature is None else signature.encode(),
    )
    _kept.append((functions, data, types, texts))
    places = [ctypes.addressof(each) for each in (functions, data, types)]
    return interface()(*places, len(loops), operands, 1, -1, texts[0], texts[1], 0, texts[2])


@cache
def function(name: str, operands: int) -> np.ufunc:
    return ufunc(name, [function_loop(name, operands, kind) for kind in ELEMENTS], operands)


@cache
def rows(name: str, start: float) -> np.ufunc:
    return ufunc(f"{name}_rows", [rows_loop(name, start, kind) for kind in ELEMENTS], 1, "(m,n)->()")


@cache
def columns(name: str, start: float) -> np.ufunc:
    return ufunc(f"{name}_columns", [columns_loop(name, start, kind) for kind in ELEMENTS], 1, "(n,k)->(k)")


@cache
def product() -> np.ufunc:
    return ufunc("product", [product_loop(kind) for kind in ELEMENTS], 2, "(m,k),(k,n)->(m,n)")
