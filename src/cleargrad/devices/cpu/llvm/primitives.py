"""What each primitive of a scalar expression is in vector instructions, by dtype.

`Working` holds the code being written and the dtype worked in; the tables map the names of expr/expr.py to
functions of it and of the operands' values. Read next: devices/cpu/llvm/reading.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from cleargrad.devices.cpu.llvm import vector_angles, vector_math
from cleargrad.devices.cpu.llvm.text import Code, Val, element_of, like
from cleargrad.devices.cpu.llvm.vector_convert import ELEMENTS, FLOATS, convert
from cleargrad.devices.cpu.llvm.vector_math import magnitude, with_sign

INTEGERS = {"uint8": (0, 255)} | {f"int{n}": (-(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64)}


class Unreadable(Exception):
    """The expression has no reading in instructions for this dtype."""


class Working:
    """The dtype worked in. A value's type says whether it is of that dtype or boolean."""

    def __init__(self, code: Code, kind: str, width_like: str):
        if kind not in (*FLOATS, *INTEGERS, "bool"):
            raise Unreadable(f"no arithmetic in {kind}")
        self.code = code
        self.kind = kind
        self.element = ELEMENTS[kind]
        self.type = like(width_like, self.element)
        self.floating = kind in FLOATS
        self.signed = kind not in ("uint8", "bool")

    def number(self, value: Any) -> Val:
        """A Python number as a constant of the working dtype."""
        if not isinstance(value, (bool, int, float)):
            raise Unreadable(f"the constant {value!r}")
        if self.kind in INTEGERS:
            low, high = INTEGERS[self.kind]
            if isinstance(value, float) or not low <= value <= high:
                raise Unreadable(f"{value!r} is no {self.kind}")
        if self.kind == "bool" and not isinstance(value, bool) and value not in (0, 1):
            raise Unreadable(f"{value!r} is no boolean")
        return self.code.const(value, self.type)

    def one(self, x: Val) -> Val:
        """A value of the working dtype; NumPy makes something else of booleans that stand alone."""
        if x.type != self.type:
            raise Unreadable("arithmetic on booleans alone")
        return x

    def pair(self, x: Val, y: Val) -> tuple[Val, Val]:
        """Two values of the working dtype; one may be boolean and becomes 0 and 1."""
        if x.type != y.type:
            return self.widen(x), self.widen(y)
        return self.one(x), y

    def widen(self, x: Val) -> Val:
        return x if x.type == self.type else convert(self.code, x, "bool", self.kind)

    def truth(self, x: Val) -> Val:
        """Whether a value is not zero; NaN is something else than zero."""
        if element_of(x.type) == "i1":
            return x
        return self.code.compare("une" if self.floating else "ne", x, self.code.const(0, x.type))

    def where(self, condition: Val, x: Val, y: Val) -> Val:
        if x.type != y.type:
            x, y = self.widen(x), self.widen(y)
        return self.code.select(self.truth(condition), x, y)

    def constant(self, value: float) -> Val:
        return self.code.const(value, self.type)


# Everywhere ------------------------------------------------------------------------------------------------


def arithmetic(method: str) -> Callable[..., Val]:
    return lambda at, x, y: getattr(at.code, method)(*at.pair(x, y))


def comparing(floats: str, integers: str) -> Callable[..., Val]:
    def write(at: Working, x: Val, y: Val) -> Val:
        if x.type != y.type:
            x, y = at.widen(x), at.widen(y)
        if element_of(x.type) in ("float", "double"):
            return at.code.compare(floats, x, y)
        plain = at.signed and element_of(x.type) != "i1"
        predicate = integers if integers in ("eq", "ne") else ("s" if plain else "u") + integers
        return at.code.compare(predicate, x, y)

    return write


def logic(instruction: str) -> Callable[..., Val]:
    return lambda at, x, y: at.code.binary(instruction, at.truth(x), at.truth(y))


def of_floats(function: Callable[..., Val]) -> Callable[..., Val]:
    """A function of vector_math or vector_angles."""

    def write(at: Working, x: Val, *more: Val) -> Val:
        values = at.pair(x, *more) if more else (at.one(x),)
        return function(at.code, *values)

    return write


def by_intrinsic(name: str) -> Callable[..., Val]:
    def write(at: Working, x: Val) -> Val:
        x = at.one(x)
        return at.code.intrinsic(name, x.type, x)

    return write


def invert(at: Working, x: Val) -> Val:
    ones = at.code.const(True if element_of(x.type) == "i1" else -1, x.type)
    return at.code.binary("xor", x, ones)


def logical_not(at: Working, x: Val) -> Val:
    return invert(at, at.truth(x))


def same(at: Working, x: Val) -> Val:
    return x


def rectified(at: Working, x: Val, y: Val) -> Val:
    predicate = "ole" if at.floating else "sle" if at.signed else "ule"
    zero = at.constant(0)
    x, y = at.pair(x, y)
    return at.code.select(at.code.compare(predicate, y, zero), zero, x)


def sign(at: Working, x: Val) -> Val:
    """1, 0 or -1; 0 for NaN."""
    code, zero = at.code, at.constant(0)
    if element_of(x.type) == "i1":
        return x
    above, below = ("ogt", "olt") if at.floating else ("sgt" if at.signed else "ugt", "slt")
    positive = code.select(code.compare(above, x, zero), at.constant(1), zero)
    if not at.signed:
        return positive
    return code.select(code.compare(below, x, zero), at.constant(-1), positive)


def all_lanes(at: Working, value: bool, x: Val) -> Val:
    return at.code.const(value, like(x.type, "i1"))


# Floats ----------------------------------------------------------------------------------------------------


def ignoring_nan(predicate: str) -> Callable[..., Val]:
    """fmax and fmin: the other operand where one is NaN."""

    def write(at: Working, x: Val, y: Val) -> Val:
        code, (x, y) = at.code, at.pair(x, y)
        chosen = code.select(code.compare(predicate, x, y), x, y)
        return code.select(code.compare("uno", y, y), x, chosen)

    return write


def below_infinity(predicate: str) -> Callable[..., Val]:
    def write(at: Working, x: Val) -> Val:
        x = at.one(x)
        return at.code.compare(predicate, magnitude(at.code, x), at.constant(math.inf))

    return write


def signbit(at: Working, x: Val) -> Val:
    whole = vector_math.bits(at.code, at.one(x))
    return at.code.compare("slt", whole, at.code.const(0, whole.type))


def reciprocal(at: Working, x: Val) -> Val:
    return at.code.div(at.constant(1.0), at.one(x))


def square(at: Working, x: Val) -> Val:
    x = at.one(x)
    return at.code.mul(x, x)


def fmod(at: Working, x: Val, y: Val) -> Val:
    return at.code.binary("frem", *at.pair(x, y))


def remainder(at: Working, x: Val, y: Val) -> Val:
    """As fmod, but with the sign of the divisor."""
    code, (x, y) = at.code, at.pair(x, y)
    rest, zero = code.binary("frem", x, y), at.constant(0.0)
    moved = code.select(apart(code, rest, y, zero), code.add(rest, y), rest)
    return code.select(code.compare("oeq", rest, zero), with_sign(code, zero, y), moved)


def apart(code: Code, rest: Val, y: Val, zero: Val) -> Val:
    """Whether a rest that is not zero and the divisor have different signs."""
    different = code.binary("xor", code.compare("olt", rest, zero), code.compare("olt", y, zero))
    return code.binary("and", different, code.compare("one", rest, zero))


def floor_divide(at: Working, x: Val, y: Val) -> Val:
    """From the exact rest, because the quotient may round up to an integer it does not reach."""
    code, (x, y) = at.code, at.pair(x, y)
    rest, zero, one = code.binary("frem", x, y), at.constant(0.0), at.constant(1.0)
    plain = code.div(x, y)
    quotient = code.div(code.binary("fsub", x, rest), y)
    quotient = code.select(apart(code, rest, y, zero), code.sub(quotient, one), quotient)
    down = code.intrinsic("floor", x.type, quotient)
    short = code.compare("ogt", code.sub(quotient, down), at.constant(0.5))
    down = code.select(short, code.add(down, one), down)
    down = code.select(code.compare("oeq", quotient, zero), with_sign(code, zero, plain), down)
    return code.select(code.compare("oeq", y, zero), plain, down)


def trunc_divide(at: Working, x: Val, y: Val) -> Val:
    ratio = at.code.div(*at.pair(x, y))
    return at.code.intrinsic("trunc", ratio.type, ratio)


def copysign(at: Working, x: Val, y: Val) -> Val:
    return with_sign(at.code, *at.pair(x, y))


# Integers --------------------------------------------------------------------------------------------------


def larger(at: Working, x: Val, y: Val) -> Val:
    return _extreme(at, "gt", x, y)


def smaller(at: Working, x: Val, y: Val) -> Val:
    return _extreme(at, "lt", x, y)


def _extreme(at: Working, order: str, x: Val, y: Val) -> Val:
    x, y = at.pair(x, y)
    predicate = ("s" if at.signed else "u") + order
    return at.code.select(at.code.compare(predicate, x, y), x, y)


def absolute(at: Working, x: Val) -> Val:
    x = at.one(x)
    if not at.signed:
        return x
    negative = at.code.compare("slt", x, at.constant(0))
    return at.code.select(negative, at.code.neg(x), x)


def negative_whole(at: Working, x: Val) -> Val:
    x = at.one(x)
    if not at.signed:
        return all_lanes(at, False, x)
    return at.code.compare("slt", x, at.constant(0))


def shift(left: bool) -> Callable[..., Val]:
    """By as many digits as there are, or by fewer than none, everything is shifted out."""

    def write(at: Working, x: Val, y: Val) -> Val:
        code, (x, y) = at.code, at.pair(x, y)
        digits = int(at.element[1:])
        possible = code.compare("ult", y, at.constant(digits))
        if left or not at.signed:
            shifted = code.binary("shl" if left else "lshr", x, code.select(possible, y, at.constant(0)))
            return code.select(possible, shifted, at.constant(0))
        return code.binary("ashr", x, code.select(possible, y, at.constant(digits - 1)))

    return write


def bitwise(instruction: str) -> Callable[..., Val]:
    def write(at: Working, x: Val, y: Val) -> Val:
        if x.type != y.type:
            x, y = at.widen(x), at.widen(y)
        return at.code.binary(instruction, x, y)

    return write


# Tables: name -> function of `Working` and of the values ---------------------------------------------------

Table = dict[str, Callable[..., Val]]

EVERYWHERE: Table = {
    "lt": comparing("olt", "lt"),
    "le": comparing("ole", "le"),
    "gt": comparing("ogt", "gt"),
    "ge": comparing("oge", "ge"),
    "eq": comparing("oeq", "eq"),
    "ne": comparing("une", "ne"),
    "logical_and": logic("and"),
    "logical_or": logic("or"),
    "logical_xor": logic("xor"),
    "logical_not": logical_not,
    "where": lambda at, condition, x, y: at.where(condition, x, y),
    "drop": lambda at, x, condition, zero: at.where(condition, zero, x),
    "sign": sign,
    "identity": same,
    "conj": same,
    "real": same,
}
NUMBERS: Table = {
    "add": arithmetic("add"),
    "sub": arithmetic("sub"),
    "mul": arithmetic("mul"),
    "neg": lambda at, x: at.code.neg(at.one(x)),
    "square": square,
    "imag": lambda at, x: at.constant(0),
    "rectified": rectified,
}
FUNCTIONS: Table = {
    name: of_floats(getattr(module, name))
    for module, names in (
        (
            vector_math,
            "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sigmoid tanh erf erfc normal_below hypot",
        ),
        (vector_math, "logaddexp logaddexp2"),
        (vector_angles, "sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh"),
    )
    for name in names.split()
}
OF_FLOATS: Table = {
    "div": arithmetic("div"),
    "power": of_floats(vector_math.pow),
    "fmod": fmod,
    "remainder": remainder,
    "floor_divide": floor_divide,
    "trunc_divide": trunc_divide,
    "fmax": ignoring_nan("ogt"),
    "fmin": ignoring_nan("olt"),
    "copysign": copysign,
    "reciprocal": reciprocal,
    "abs": by_intrinsic("fabs"),
    "floor": by_intrinsic("floor"),
    "ceil": by_intrinsic("ceil"),
    "trunc": by_intrinsic("trunc"),
    "round": by_intrinsic("roundeven"),
    "isnan": lambda at, x: at.code.compare("uno", at.one(x), at.one(x)),
    "isinf": below_infinity("oeq"),
    "isfinite": below_infinity("olt"),
    "signbit": signbit,
    **FUNCTIONS,
}
OF_INTEGERS: Table = {
    "maximum": larger,
    "minimum": smaller,
    "fmax": larger,
    "fmin": smaller,
    "abs": absolute,
    "floor": same,
    "ceil": same,
    "trunc": same,
    "round": same,
    "isnan": lambda at, x: all_lanes(at, False, x),
    "isinf": lambda at, x: all_lanes(at, False, x),
    "isfinite": lambda at, x: all_lanes(at, True, x),
    "signbit": negative_whole,
    "bit_and": bitwise("and"),
    "bit_or": bitwise("or"),
    "bit_xor": bitwise("xor"),
    "bit_not": invert,
    "shift_left": shift(left=True),
    "shift_right": shift(left=False),
}
OF_BOOLEANS: Table = {
    "add": bitwise("or"),
    "mul": bitwise("and"),
    "maximum": bitwise("or"),
    "minimum": bitwise("and"),
    "abs": same,
    "isnan": lambda at, x: all_lanes(at, False, x),
    "isinf": lambda at, x: all_lanes(at, False, x),
    "isfinite": lambda at, x: all_lanes(at, True, x),
    "bit_and": bitwise("and"),
    "bit_or": bitwise("or"),
    "bit_xor": bitwise("xor"),
    "bit_not": invert,
}
TABLES: tuple[tuple[Table, Callable[[Working], bool]], ...] = (
    (EVERYWHERE, lambda at: True),
    (NUMBERS, lambda at: at.kind != "bool"),
    (OF_FLOATS, lambda at: at.floating),
    (OF_INTEGERS, lambda at: at.kind in INTEGERS),
    (OF_BOOLEANS, lambda at: at.kind == "bool"),
)
