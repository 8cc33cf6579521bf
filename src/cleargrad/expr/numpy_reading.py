"""Runs a scalar expression on NumPy arrays: the living definition that every other reading is tested against.

`read` turns an expression into a function of arrays. An expression that is one primitive of its operands
becomes the bare ufunc, so that the commonest ops cost nothing extra. Read next: autograd/node.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.expr.expr import Expr, Var

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = frozenset((F32, F64))


def instructions(name: str, operands: int) -> Callable | None:
    """A function of float arrays by the instructions of kernels; the device whose kernels they are sets another."""
    return None


def of_one(name: str, otherwise: Callable) -> Callable:
    """A function of floats by the instructions that compiled kernels have too, so that both give the same bits.

    `otherwise` is for complex numbers, and for machines without a compiler.
    """
    found: list[Callable] = []

    def call(x, out=None):
        kind = x.dtype
        if not (kind is F32 or kind is F64 or kind in FLOATS):
            return otherwise(x)
        function = found[0] if found else look(found, name, otherwise, 1)
        return function(x) if out is None else function(x, out)

    return call


def of_two(name: str, otherwise: Callable) -> Callable:
    found: list[Callable] = []

    def call(x, y):
        kind = x.dtype if isinstance(x, (np.ndarray, np.generic)) else y.dtype
        if not (kind is F32 or kind is F64 or kind in FLOATS):
            return otherwise(x, y)
        function = found[0] if found else look(found, name, otherwise, 2)
        try:
            return function(x, y)
        except TypeError:  # the other one is complex
            return otherwise(x, y)

    return call


def look(found: list[Callable], name: str, otherwise: Callable, operands: int) -> Callable:
    made = instructions(name, operands)
    found.append(otherwise if made is None else made)
    return found[0]


def sigmoid(x):
    # exp overflows to inf on the far left, where 1 / inf = 0 is the right answer.
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def normal_below(x):
    return 0.5 * (1 + NUMPY["erf"](x * x.dtype.type(np.sqrt(0.5))))


def rsqrt(x):
    return 1 / np.sqrt(x)


def sign(x):
    # np.sign would keep NaN, for which PyTorch says 0, and does not know booleans.
    kind = x.dtype.kind
    if kind == "b":
        return x.copy()
    return np.sign(x) if kind == "c" else np.greater(x, 0).astype(x.dtype) - np.less(x, 0)


def is_whole(x) -> bool:
    """Whether an array or number is of integers."""
    return x.dtype.kind in "iu" if isinstance(x, (np.ndarray, np.generic)) else isinstance(x, int)


def rounding(ufunc: np.ufunc) -> Callable:
    """Integers are round already; NumPy would take some of them through float64."""

    def call(x):
        return x.copy() if is_whole(x) else ufunc(x)

    return call


def dividing(ufunc: Callable) -> Callable:
    """Integers cannot be divided by zero: an error in PyTorch, a silent zero in NumPy."""

    def call(x, y):
        if is_whole(x) and is_whole(y) and np.size(x) and not np.all(y):
            raise error(RuntimeError, ufunc.__name__, "ZeroDivisionError: integer division by zero")
        return ufunc(x, y)

    return call


def trunc_divide(x, y):
    if is_whole(x) and is_whole(y):
        return np.floor_divide(x - np.fmod(x, y), y)
    return np.trunc(np.true_divide(x, y))


power_of_floats = of_two("power", np.power)


def power(x, y):
    """x ** y; of integers to negative powers only 1 and -1 leave something, as in PyTorch."""
    if not (is_whole(x) and is_whole(y) and np.any(np.less(y, 0))):
        return power_of_floats(x, y)
    result = np.power(x, np.maximum(y, 0))
    turned = np.where(x == -1, 1 - 2 * (y % 2), x == 1)
    return np.where(np.less(y, 0), turned, result)


def literal_power(x, exponent):
    """x to a power that stands in a formula: the products that devices/cpu/llvm/reading.py makes of it."""
    if x.dtype not in FLOATS:
        return power(x, exponent)
    exponent = float(exponent)
    if exponent in (0.5, -0.5):
        return np.sqrt(x) if exponent > 0 else rsqrt(x)
    if exponent not in (-4, -3, -2, -1, 1, 2, 3, 4):
        return power(x, x.dtype.type(exponent))
    square = x * x
    result = {1: x, 2: square, 3: x * square, 4: square * square}[abs(int(exponent))]
    return result if exponent > 0 else 1 / result


# np.where branches on every element, which on random conditions takes ten times as long as arithmetic. Above
# this many elements floats are chosen by their bits instead.
MANY = 4096
BITS = {np.dtype(np.float32): np.int32, np.dtype(np.float64): np.int64}


def drop(x, condition, zero):
    """Zero where the condition holds, else x."""
    if x.shape != condition.shape:
        return np.where(condition, x.dtype.type(0), x)
    if x.size > MANY and x.dtype in BITS and x.flags.c_contiguous:
        bits = BITS[x.dtype]
        keep = np.subtract(condition.view(np.int8), 1, dtype=bits)  # all ones where x stays
        keep &= x.view(bits)
        return keep.view(x.dtype)
    result = x.copy()
    np.putmask(result, condition, zero)  # np.where takes twice the time on small arrays
    return result


ZERO32 = np.zeros((), F32)
put = getattr(np.putmask, "_implementation", np.putmask)  # without the search for arrays that are not NumPy's


def rectified(x, y):
    """x where y is positive (or NaN), else 0: the gradient of relu, often enough to be one call."""
    kind = x.dtype
    zero = ZERO32 if kind is F32 else kind.type(0)
    if x.size > MANY or x.shape != y.shape:
        return drop(x, y <= zero, zero)
    result = x.copy()
    put(result, y <= zero, zero)
    return result


def where(condition, x, y):
    bits = BITS.get(x.dtype) if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) else None
    plain = bits is not None and condition.size > MANY and x.dtype is y.dtype and condition.dtype == np.bool_
    if not plain or not (
        x.shape == y.shape == condition.shape and x.flags.c_contiguous and y.flags.c_contiguous
    ):
        return np.where(condition, x, y)
    chosen = np.negative(condition.view(np.int8), dtype=bits)
    chosen &= x.view(bits) ^ y.view(bits)
    chosen ^= y.view(bits)
    return chosen.view(x.dtype)


def special(name: str) -> Callable:
    """A function of expr/special.py or special_more.py, loaded when it is first called."""

    def call(*arrays):
        from cleargrad.expr import special, special_more

        function = getattr(special, name, None) or getattr(special_more, name)
        return function(*arrays)

    return call


NUMPY: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "power": power,
    "fmod": dividing(np.fmod),
    "remainder": dividing(np.remainder),
    "floor_divide": dividing(np.floor_divide),
    "trunc_divide": dividing(trunc_divide),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "atan2": np.arctan2,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "bit_not": np.invert,
    "neg": np.negative,
    "abs": np.absolute,
    "sign": sign,
    "sigmoid": sigmoid,
    "normal_below": normal_below,
    "rsqrt": rsqrt,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "round": rounding(np.rint),
    "floor": rounding(np.floor),
    "ceil": rounding(np.ceil),
    "trunc": rounding(np.trunc),
    "identity": np.positive,
    "drop": drop,
    "rectified": rectified,
    "where": where,
    "real": np.real,
    "imag": np.imag,
    "angle": np.angle,
}
for _name in expr.special:
    NUMPY[_name] = special(_name)
for _name in expr.PRIMITIVES:
    # Everything not listed above carries NumPy's own name.
    NUMPY.setdefault(_name, getattr(np, _name, None))

# What NumPy's library would round in ways of its own.
ROUNDED = {
    1: (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sigmoid", "normal_below", "tanh", "erf", "erfc",
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
    ),
    2: ("hypot", "logaddexp", "logaddexp2", "atan2", "fmax", "fmin"),  # the last two: of zeros with other signs
}  # fmt: skip
for _count, _names in ROUNDED.items():
    for _name in _names:
        NUMPY[_name] = {1: of_one, 2: of_two}[_count](_name, NUMPY[_name])
exp, log, tanh = NUMPY["exp"], NUMPY["log"], NUMPY["tanh"]

PIECE = 32768  # elements whose intermediate values fit into the cache
COMMUTATIVE = ("add", "mul", "maximum", "minimum")


def read(tree: Expr, operands: int) -> Callable:
    """A function of `operands` arrays that computes the expression."""
    plain = len(tree.args) == operands and all(
        isinstance(arg, Var) and arg.position == k for k, arg in enumerate(tree.args)
    )
    if plain:
        return NUMPY[tree.primitive]
    return _compile(tree, operands)


def _compile(tree: Expr, operands: int) -> Callable:
    """One line of assignment per primitive; a shared subtree is computed once.

    Constants are default arguments, so that `specialise` can give them a type. Large arrays are computed piece by
    piece, so that what stands between the lines stays in the cache and takes no memory.
    """
    names: dict[int, str] = {}
    scope: dict[str, object] = {"__name__": __name__}  # NumPy's warnings are filtered by module
    lines: list[str] = []
    constants: list[float] = []

    def visit(node: object) -> str:
        if isinstance(node, Var):
            return f"a{node.position}"
        if not isinstance(node, Expr):
            constants.append(node)  # type: ignore[arg-type]
            return f"c{len(constants) - 1}"
        if id(node) not in names:
            given = node.args
            if node.primitive in ("maximum", "minimum") and not isinstance(given[1], Expr):
                given = given[::-1]  # of two zeros the second wins: not the literal, as in compiled kernels
            args = ", ".join([visit(arg) for arg in given])
            literal = node.primitive == "power" and not isinstance(node.args[1], Expr)
            name = "literal_power" if literal else node.primitive
            scope[name] = literal_power if literal else NUMPY[name]
            lines.append(f"    t{len(names)} = {name}({args})")
            names[id(node)] = f"t{len(names)}"
        return names[id(node)]

    result = visit(tree)
    for position in sorted(_computed_alone(tree)):
        # The ufunc of a bare Python number would be a float64 and widen everything after it.
        lines.insert(0, f"    if type(a{position}) in numbers: a{position} = a0.dtype.type(a{position})")
    scope |= {"numbers": (int, float), "same_layout": same_layout, "in_pieces": in_pieces, "large": 2 * PIECE}
    taken = "".join([f"a{k}, " for k in range(operands)])
    given = "".join([f"c{k}, " for k in range(len(constants))])
    if len(lines) > 1:
        divided = f"in_pieces(formula, ({taken}), ({given}))"
        lines.insert(0, f"    if a0.size > large and same_layout({taken}): return {divided}")
    exec("\n".join([f"def formula({taken}{given}):", *lines, f"    return {result}"]), scope)
    formula: FunctionType = scope["formula"]  # type: ignore[assignment]
    formula.__defaults__ = tuple(constants)
    if tree.primitive in COMMUTATIVE and operands == len(constants) == len(lines) == 1:
        formula.commutes = NUMPY[tree.primitive]
    return formula


def same_layout(first: np.ndarray, *others: Any) -> bool:
    """Whether the same place in memory is the same element of all arrays; numbers go with everything."""
    return first.flags.c_contiguous and all(
        x.shape == first.shape and x.flags.c_contiguous
        for x in others
        if isinstance(x, np.ndarray) and x.ndim
    )


def in_pieces(formula: Callable, operands: tuple, constants: tuple) -> np.ndarray:
    """The formula on one stretch of memory after the other."""
    first = operands[0]
    flat = [x.reshape(-1) if isinstance(x, np.ndarray) and x.ndim else x for x in operands]

    def compute(piece: slice) -> np.ndarray:
        parts = [x[piece] if isinstance(x, np.ndarray) and x.ndim else x for x in flat]
        return formula(*parts, *constants)

    value = compute(slice(0, PIECE))
    result = np.empty(first.size, value.dtype)
    result[:PIECE] = value
    for start in range(PIECE, first.size, PIECE):
        piece = slice(start, start + PIECE)
        result[piece] = compute(piece)
    return result.reshape(first.shape)


def _computed_alone(tree: Expr) -> set[int]:
    """The operands that meet a primitive without the first one, which alone is sure to be an array."""
    found: set[int] = set()

    def operands(node: object) -> set[int]:
        if isinstance(node, Var):
            return {node.position}
        if not isinstance(node, Expr):
            return set()
        inside = set().union(*map(operands, node.args))
        if 0 not in inside:
            found.update(inside)
        return inside

    operands(tree)
    return found


def specialise(kernel: Callable, dtype: np.dtype) -> Callable:
    """The same kernel with its constants as 0-d arrays of a type, which NumPy takes faster than numbers."""
    if not (isinstance(kernel, FunctionType) and kernel.__name__ == "formula" and kernel.__defaults__):
        return kernel
    ufunc = getattr(kernel, "commutes", None)
    if ufunc is not None:
        return partial(ufunc, np.array(kernel.__defaults__[0], dtype))  # one call less: relu is maximum(0, x)
    constants = tuple(np.array(number, dtype) for number in kernel.__defaults__)
    return FunctionType(kernel.__code__, kernel.__globals__, kernel.__name__, constants)
