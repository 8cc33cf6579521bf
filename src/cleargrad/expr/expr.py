"""Scalar expressions: what an elementwise op or reduction computes, as an object that can be inspected.

A declaration writes `lambda x, y: x * expr.sigmoid(y)`; `trace` calls it once with variables and gets a tree.
Readings walk that tree: expr/numpy_reading.py runs it on arrays, the compiler lowers it to machine code.
`PRIMITIVES` is the whole vocabulary a reading must know. Read next: expr/numpy_reading.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from inspect import CO_VARARGS
from typing import Any

# name -> number of operands
PRIMITIVES: dict[str, int] = {}


class Expr:
    """A node of a scalar expression: a primitive applied to expressions and Python numbers."""

    __slots__ = ("args", "primitive")

    def __init__(self, primitive: str, args: tuple):
        self.primitive = primitive
        self.args = args

    def __repr__(self) -> str:
        return f"{self.primitive}({', '.join(map(str, self.args))})"

    def __add__(self, other):
        return add(self, other)

    def __radd__(self, other):
        return add(other, self)

    def __sub__(self, other):
        return sub(self, other)

    def __rsub__(self, other):
        return sub(other, self)

    def __mul__(self, other):
        return mul(self, other)

    def __rmul__(self, other):
        return mul(other, self)

    def __truediv__(self, other):
        return div(self, other)

    def __rtruediv__(self, other):
        return div(other, self)

    def __pow__(self, other):
        return power(self, other)

    def __rpow__(self, other):
        return power(other, self)

    def __neg__(self):
        return neg(self)

    def __eq__(self, other):
        return eq(self, other)

    def __ne__(self, other):
        return ne(self, other)

    __hash__ = object.__hash__

    def __bool__(self):
        # So that a formula which branches on a value is refused instead of misread.
        raise TypeError("a scalar expression has no truth value; choose with where()")

    def __lt__(self, other):
        return lt(self, other)

    def __le__(self, other):
        return le(self, other)

    def __gt__(self, other):
        return gt(self, other)

    def __ge__(self, other):
        return ge(self, other)

    def __and__(self, other):
        return logical_and(self, other)

    def __or__(self, other):
        return logical_or(self, other)

    def __invert__(self):
        return logical_not(self)


class Var(Expr):
    """An operand of the op, by position."""

    __slots__ = ("name", "position")

    def __init__(self, name: str, position: int):
        super().__init__("var", ())
        self.name = name
        self.position = position

    def __repr__(self) -> str:
        return self.name


def primitive(name: str, operands: int) -> Callable[..., Expr]:
    PRIMITIVES[name] = operands

    def build(*args: Expr | float) -> Expr:
        assert len(args) == operands, f"{name} takes {operands} operands, got {len(args)}"
        return Expr(name, args)

    build.__name__ = name
    return build


def substitute(tree: Expr, args: tuple) -> Expr:
    """The expression with its variables replaced, by position."""
    return replaced(tree, args, {})  # type: ignore[return-value]


def replaced(node: object, args: tuple, done: dict[int, object]) -> object:
    if isinstance(node, Var):
        return args[node.position]
    if not isinstance(node, Expr):
        return node
    if id(node) not in done:
        done[id(node)] = Expr(node.primitive, tuple([replaced(arg, args, done) for arg in node.args]))
    return done[id(node)]


def parameters(function: Callable) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Names of the positional and of the keyword-only parameters, and whether there is a star between them.

    Read off the code object: inspect.signature is slow, and this runs a thousand times during import. A
    function made by another one says what it stands for in `parameters`.
    """
    stated = getattr(function, "parameters", None)
    if stated is not None:
        return stated
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return positional, keywords, bool(code.co_flags & CO_VARARGS)


def drop(x: Expr, condition: Expr) -> Expr:
    """0 where the condition holds, else x."""
    return _drop(x, condition, 0)


def trace(formula: Callable[..., Expr]) -> tuple[Expr, tuple[str, ...]]:
    """The tree behind a formula, and the names of its operands in order."""
    names = parameters(formula)[0]
    variables = [Var(name, position) for position, name in enumerate(names)]
    return formula(*variables), names


add, sub, mul, div = (primitive(name, 2) for name in ("add", "sub", "mul", "div"))
power, fmod, remainder, floor_divide = (
    primitive(n, 2) for n in ("power", "fmod", "remainder", "floor_divide")
)
minimum, maximum, fmin, fmax = (primitive(name, 2) for name in ("minimum", "maximum", "fmin", "fmax"))
atan2, hypot, copysign, nextafter = (primitive(n, 2) for n in ("atan2", "hypot", "copysign", "nextafter"))
ldexp, gcd, lcm, logaddexp, logaddexp2 = (
    primitive(name, 2) for name in ("ldexp", "gcd", "lcm", "logaddexp", "logaddexp2")
)
lt, le, gt, ge, eq, ne = (primitive(name, 2) for name in ("lt", "le", "gt", "ge", "eq", "ne"))
logical_and, logical_or, logical_xor = (primitive(n, 2) for n in ("logical_and", "logical_or", "logical_xor"))
bit_and, bit_or, bit_xor, shift_left, shift_right = (
    primitive(name, 2) for name in ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
)
neg, abs, sign, square, reciprocal = (primitive(n, 1) for n in ("neg", "abs", "sign", "square", "reciprocal"))
exp, exp2, expm1, log, log2, log10, log1p = (
    primitive(name, 1) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")
)
sqrt, rsqrt, sigmoid = (primitive(name, 1) for name in ("sqrt", "rsqrt", "sigmoid"))
normal_below = primitive("normal_below", 1)  # how much of a normal distribution lies below x
sin, cos, tan, asin, acos, atan = (
    primitive(name, 1) for name in ("sin", "cos", "tan", "asin", "acos", "atan")
)
sinh, cosh, tanh, asinh, acosh, atanh = (
    primitive(name, 1) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
)
floor, ceil, trunc, round = (primitive(name, 1) for name in ("floor", "ceil", "trunc", "round"))
isnan, isinf, isfinite, signbit = (primitive(name, 1) for name in ("isnan", "isinf", "isfinite", "signbit"))
logical_not, bit_not = (primitive(name, 1) for name in ("logical_not", "bit_not"))
conj, real, imag, angle = (primitive(name, 1) for name in ("conj", "real", "imag", "angle"))
identity = primitive("identity", 1)
where = primitive("where", 3)
_drop = primitive("drop", 3)
rectified = primitive("rectified", 2)  # rectified(x, y) is x where y is not negative or zero, else 0

trunc_divide = primitive("trunc_divide", 2)

# Functions that NumPy lacks; expr/special.py and expr/special_more.py hold them under these names.
SPECIAL = {
    1: (
        "erf", "erfc", "erfcx", "erfinv", "ndtr", "ndtri", "log_ndtr", "lgamma", "digamma", "trigamma",
        "i0", "i0e", "i1", "i1e", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0",
        "scaled_modified_bessel_k1", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1",
        "spherical_bessel_j0",
        "airy_ai",
    ),
    2: (
        "zeta", "igamma", "igammac", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
        "chebyshev_polynomial_v", "chebyshev_polynomial_w", "shifted_chebyshev_polynomial_t",
        "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w",
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    ),
}  # fmt: skip
special: dict[str, Callable[..., Expr]] = {
    name: primitive(name, operands) for operands, names in SPECIAL.items() for name in names
}
erf, erfc, erfcx, erfinv = (special[name] for name in ("erf", "erfc", "erfcx", "erfinv"))
lgamma, digamma = special["lgamma"], special["digamma"]


@lru_cache(maxsize=8192)
def text_of(tree: Any) -> str:
    """An expression with its operands by position: their names are the declaration's own affair."""
    if isinstance(tree, Var):
        return f"${tree.position}"
    if not isinstance(tree, Expr):
        return repr(tree)
    return f"{tree.primitive}({', '.join(map(text_of, tree.args))})"


@lru_cache(maxsize=8192)
def conditions(tree: Expr) -> frozenset[int]:
    """The operands of an expression that choose between others: they are booleans, whatever is computed."""
    if not isinstance(tree, Expr) or isinstance(tree, Var):
        return frozenset()
    found = {position for arg in tree.args for position in conditions(arg)}
    chooser = {"where": 0, "drop": 1}.get(tree.primitive)
    if chooser is not None and isinstance(tree.args[chooser], Var):
        found.add(tree.args[chooser].position)
    return frozenset(found)
