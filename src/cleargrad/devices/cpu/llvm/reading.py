"""Writes a scalar expression as vector instructions: the reading that compiled kernels are made of.

`read` takes the values of the operands and returns the value of the result; it means what
expr/numpy_reading.py means on arrays of the working dtype `kind`. Floats are LLVM's float and double,
integers iN, booleans i1. What cannot be said in instructions raises `Unreadable`, and the compiler calls the op
as it is. Read next: devices/cpu/llvm/jit.py.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from cleargrad.devices.cpu.llvm import vector_math
from cleargrad.devices.cpu.llvm.primitives import INTEGERS, TABLES, Unreadable, Working
from cleargrad.devices.cpu.llvm.text import Code, Val
from cleargrad.devices.cpu.llvm.vector_convert import ELEMENTS, convert
from cleargrad.expr.expr import Expr, Var

__all__ = ["Unreadable", "convert", "read", "readable"]


def read(code: Code, tree: Expr, operands: list[Val], kind: str) -> Val:
    """The result of an expression: of the working dtype, or i1 for comparisons and the like."""
    return Reading(code, operands, kind).value(tree)


@lru_cache(maxsize=8192)
def readable(tree: Expr, kind: str) -> bool:
    """Whether `read` knows the expression, with conditions boolean and other operands of the working dtype."""
    boolean = conditions(tree)
    element = ELEMENTS.get(kind, "i1")
    operands = [Val(f"%x{k}", "i1" if k in boolean else element) for k in range(operand_count(tree))]
    try:
        read(Code(), tree, operands, kind)
    except Unreadable:
        return False
    return True


def operand_count(tree: Expr) -> int:
    positions = [operand_count(arg) for arg in tree.args if isinstance(arg, Expr)]
    if isinstance(tree, Var):
        positions.append(tree.position + 1)
    return max(positions, default=0)


def conditions(tree: Expr) -> set[int]:
    """The operands that are chosen by, which are boolean whatever the others are."""
    inside = [conditions(arg) for arg in tree.args if isinstance(arg, Expr)]
    found = set().union(*inside)
    if tree.primitive == "where" and isinstance(tree.args[0], Var):
        found.add(tree.args[0].position)
    return found


DIVISIONS = ("fmod", "remainder", "floor_divide", "trunc_divide")


class Reading:
    """One expression on its way into instructions."""

    def __init__(self, code: Code, operands: list[Val], kind: str):
        self.at = Working(code, kind, operands[0].type if operands else "i1")
        self.operands = operands
        self.done: dict[int, Val] = {}

    def value(self, node: Any) -> Val:
        if isinstance(node, Var):
            return self.operands[node.position]
        if not isinstance(node, Expr):
            return self.at.number(node)
        if id(node) not in self.done:
            self.done[id(node)] = self.apply(node.primitive, node.args)
        return self.done[id(node)]

    def apply(self, name: str, args: tuple) -> Val:
        at = self.at
        if name == "power" and not isinstance(args[1], Expr):
            return self.literal_power(at.one(self.value(args[0])), args[1])
        if name in DIVISIONS and at.kind in INTEGERS:
            return self.divide_whole(name, at.one(self.value(args[0])), args[1])
        if name in ("maximum", "minimum") and at.floating:
            return self.bound(name, args)
        for table, allowed in TABLES:
            if name in table and allowed(at):
                return table[name](at, *[self.value(arg) for arg in args])
        raise Unreadable(f"{name} of {at.kind}")

    # What depends on literals ------------------------------------------------------------------------------

    def bound(self, name: str, args: tuple) -> Val:
        """The larger or smaller of two floats; NaN wins. A literal, which is not NaN, makes it one instruction."""
        predicate = "ogt" if name == "maximum" else "olt"
        if not isinstance(args[1], Expr):
            args = (args[1], args[0])
        x, y = self.at.pair(self.value(args[0]), self.value(args[1]))
        chosen = self.at.code.select(self.at.code.compare(predicate, x, y), x, y)
        if not isinstance(args[0], Expr) and not math.isnan(args[0]):
            return chosen
        return self.at.code.select(self.at.code.compare("uno", x, x), x, chosen)

    def literal_power(self, x: Val, exponent: Any) -> Val:
        if self.at.kind == "bool" or (isinstance(exponent, float) and not self.at.floating):
            raise Unreadable(f"power {exponent!r} of {self.at.kind}")
        if self.at.floating and exponent in (0.5, -0.5):
            return (vector_math.sqrt if exponent > 0 else vector_math.rsqrt)(self.at.code, x)
        # Longer products would round more often than a power does; integers do not round.
        few = 4 if self.at.floating else 64
        if not abs(exponent) <= few or exponent != int(exponent) or (exponent < 0 and not self.at.floating):
            return self.power(x, self.at.number(exponent))
        if exponent == 0:
            return self.at.constant(1)
        result = None
        factor, count = x, abs(int(exponent))
        while count:
            if count % 2:
                result = factor if result is None else self.at.code.mul(result, factor)
            count //= 2
            if count:
                factor = self.at.code.mul(factor, factor)
        assert result is not None
        return result if exponent > 0 else self.at.code.div(self.at.constant(1.0), result)

    def power(self, x: Val, y: Val) -> Val:
        if not self.at.floating:
            raise Unreadable("power of integers")
        return vector_math.pow(self.at.code, *self.at.pair(x, y))

    def divide_whole(self, name: str, x: Val, divisor: Any) -> Val:
        """Division of integers by a literal; by a value it may be by zero, which is an error with a message."""
        if isinstance(divisor, Expr) or divisor == 0:
            raise Unreadable(f"{name} of integers")
        code, y = self.at.code, self.at.number(divisor)
        sign = "s" if self.at.signed else "u"
        if divisor == -1:  # the most negative number has no opposite, over which processors stumble
            return code.neg(x) if name.endswith("divide") else self.at.constant(0)
        quotient, rest = code.binary(f"{sign}div", x, y), code.binary(f"{sign}rem", x, y)
        if name in ("fmod", "trunc_divide") or not self.at.signed:
            return quotient if name.endswith("divide") else rest
        zero = self.at.constant(0)
        wrong = code.compare("sgt" if divisor < 0 else "slt", rest, zero)
        if name == "floor_divide":
            return code.select(wrong, code.sub(quotient, self.at.constant(1)), quotient)
        return code.select(wrong, code.add(rest, y), rest)
