"""Where single calls ask for compiled kernels: large arrays go to machine code, small ones to NumPy's ufuncs.

Both give the same bits (devices/cpu/kernels/ufuncs.py), so what a call runs is a matter of time alone. The
kernels are the compiler's own (devices/cpu/programs/eager.py). That module is loaded by the first call that is
large enough, and LLVM by the first that needs either; `loader` is set by the package, since the compiler lies
above the ops. Read next: devices/cpu/programs/eager.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any

import numpy as np

from cleargrad.expr import numpy_reading
from cleargrad.expr.expr import Expr, Var
from cleargrad.expr.numpy_reading import F32, F64, FLOATS

LARGE = 8_192  # elements from which machine code pays for the way to it, about eight microseconds
TILES = 1 << 16  # multiply-adds from which tiles pay for the way to them, about five microseconds
# What NumPy does at the speed of memory, or what has no machine code.
QUICK = {
    "add", "sub", "mul", "div", "neg", "abs", "sqrt", "square", "reciprocal", "identity", "floor", "ceil",
    "trunc", "round", "lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_xor",
    "logical_not", "isnan", "isinf", "isfinite", "signbit", "bit_and", "bit_or", "bit_xor", "bit_not",
    "shift_left", "shift_right", "conj", "real", "imag", "angle", "gcd", "lcm", "ldexp", "nextafter",
}  # fmt: skip
LIGHT = QUICK | {"maximum", "minimum", "fmax", "fmin", "where", "drop", "rectified", "sign", "copysign"}

loader: Callable[[], Any] | None = None  # gives the module devices/cpu/programs/eager.py
_loaded: list[Any] = []


def kernels() -> Any | None:
    """The compiler's kernels for eager ops; None where they cannot be had or are not wanted."""
    if not _loaded:
        _loaded.append(load())
    return _loaded[0]


def load() -> Any | None:
    if loader is None:
        return None
    try:
        return loader()
    except (ImportError, OSError):  # a machine without LLVM
        return None


@cache
def ufuncs() -> Any | None:
    """The module of ufuncs whose loops are kernels; None on a machine without LLVM."""
    try:
        from cleargrad.devices.cpu.kernels import ufuncs
    except (ImportError, OSError):
        return None
    return ufuncs


def instructions(name: str, operands: int) -> Callable | None:
    """An elementary function of float arrays, by the instructions that kernels are made of."""
    made = ufuncs()
    return None if made is None else made.function(name, operands)


numpy_reading.instructions = instructions


class without_kernels:
    """NumPy alone computes meanwhile, in all threads; for tests and measurements."""

    def __enter__(self) -> None:
        kernels()
        self.before, _loaded[0] = _loaded[0], None

    def __exit__(self, *exception: object) -> None:
        _loaded[0] = self.before


# Calls that come again -------------------------------------------------------------------------------------

BETWEEN = 61  # calls between two that are noticed: no small number, since loops make as many calls every time
WORTHWHILE = 4096  # calls after which LLVM is loaded for their sake alone
next_call = itertools.count(1).__next__


def notice(frame: FrameType) -> None:
    """Some call was made from a frame. What comes often is made quicker (devices/cpu/programs/recall.py)."""
    if _loaded or next_call() > WORTHWHILE:
        found = kernels()
        if found is not None:
            found.notice(frame)


# Formulas --------------------------------------------------------------------------------------------------


def slow(tree: Any) -> bool:
    """Whether NumPy takes more than one quick pass over memory for an expression."""
    if not isinstance(tree, Expr) or isinstance(tree, Var):
        return False
    return tree.primitive not in QUICK or any(
        isinstance(arg, Expr) and not isinstance(arg, Var) for arg in tree.args
    )


def light(tree: Any) -> bool:
    """Whether NumPy, too, does all of an expression in few instructions an element."""
    return (
        not isinstance(tree, Expr)
        or isinstance(tree, Var)
        or (tree.primitive in LIGHT and all(map(light, tree.args)))
    )


def large_for(tree: Any) -> int | None:
    """The size from which on `quickened` has machine code, if it has any: for callers who spare small arrays it."""
    if not slow(tree):
        return None
    return 4 * LARGE if light(tree) else LARGE


def quickened(kernel: Callable, tree: Any) -> Callable:
    """A kernel of NumPy's, with machine code in its stead where arrays are large."""
    large = large_for(tree)
    if large is None:
        return kernel

    def run(first: Any, *others: Any) -> Any:
        if first.size < large:
            return kernel(first, *others)
        found = kernels()
        value = None if found is None else found.formula(tree, (first, *others))
        return kernel(first, *others) if value is None else value

    return run


# Products of matrices --------------------------------------------------------------------------------------


def product(
    x: np.ndarray, y: np.ndarray, bias: np.ndarray | None = None, out: np.ndarray | None = None
) -> np.ndarray:
    """x @ y plus a bias for its rows; stacks of matrices broadcast.

    Floats are multiplied k after k, whoever does it: small matrices by a loop in this thread, larger ones by the
    compiler's tiles, on several. Everything else is NumPy's.
    """
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-2]:
        raise ValueError("the last dimension of one matrix is not the last but one of the other")
    kind = x.dtype
    alike = kind is y.dtype or kind == y.dtype  # an array that was pickled has a dtype of its own
    made = ufuncs() if alike and (kind is F32 or kind is F64 or kind in FLOATS) else None
    if made is None:
        value = np.matmul(x, y, out)
    else:
        small = x.size * y.shape[-1] < TILES and y.size <= made.ROOM
        found = None if small else kernels()
        if found is not None:
            return found.product(x, y, bias, out)
        if not small:
            y = np.ascontiguousarray(y)  # there is little room to put it in order
        value = made.product()(x, y) if out is None else made.product()(x, y, out)
    if bias is not None:
        value += bias
    return value
