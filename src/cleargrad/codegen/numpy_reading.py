"""Runs a scalar expression on NumPy arrays: the living definition that every other reading is tested against.

`read` turns an expression into a function of arrays. An expression that is one primitive of its operands
becomes the bare ufunc, so that the commonest ops cost nothing extra. Read next: autograd/node.py.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import numpy as np

from cleargrad.codegen import expr
from cleargrad.codegen.expr import Expr, Var


def sigmoid(x):
    # exp overflows to inf on the far left, where 1 / inf = 0 is the right answer.
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def rsqrt(x):
    return 1 / np.sqrt(x)


def special(name: str) -> Callable:
    """A function of codegen/special.py, loaded when it is first called."""

    def call(*arrays):
        from cleargrad.codegen import special as functions

        function = getattr(functions, name)
        return function(*arrays)

    return call


NUMPY: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "power": np.power,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "floor_divide": np.floor_divide,
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
    "sigmoid": sigmoid,
    "rsqrt": rsqrt,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "round": np.rint,
    "identity": np.positive,
    "real": np.real,
    "imag": np.imag,
    "angle": np.angle,
}
for _name in ("erf", "erfc", "erfinv", "lgamma", "digamma"):
    NUMPY[_name] = special(_name)
for _name in expr.PRIMITIVES:
    # Everything not listed above carries NumPy's own name.
    NUMPY.setdefault(_name, getattr(np, _name, None))


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

    Constants are default arguments, so that `specialise` can give them a type.
    """
    names: dict[int, str] = {}
    scope: dict[str, object] = {}
    lines: list[str] = []
    constants: list[float] = []

    def visit(node: object) -> str:
        if isinstance(node, Var):
            return f"a{node.position}"
        if not isinstance(node, Expr):
            constants.append(node)  # type: ignore[arg-type]
            return f"c{len(constants) - 1}"
        if id(node) not in names:
            args = ", ".join([visit(arg) for arg in node.args])
            scope[node.primitive] = NUMPY[node.primitive]
            lines.append(f"    t{len(names)} = {node.primitive}({args})")
            names[id(node)] = f"t{len(names)}"
        return names[id(node)]

    result = visit(tree)
    parameters = [f"a{k}" for k in range(operands)] + [f"c{k}" for k in range(len(constants))]
    exec("\n".join([f"def formula({', '.join(parameters)}):", *lines, f"    return {result}"]), scope)
    formula: FunctionType = scope["formula"]  # type: ignore[assignment]
    formula.__defaults__ = tuple(constants)
    return formula


def specialise(kernel: Callable, dtype: np.dtype) -> Callable:
    """The same kernel with its constants as 0-d arrays of a type, which NumPy takes faster than numbers."""
    if not isinstance(kernel, FunctionType) or not kernel.__defaults__:
        return kernel
    constants = tuple(np.array(number, dtype) for number in kernel.__defaults__)
    return FunctionType(kernel.__code__, kernel.__globals__, kernel.__name__, constants)
