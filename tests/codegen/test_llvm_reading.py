"""Scalar expressions as vector instructions against the same expressions on NumPy arrays."""

from __future__ import annotations

import math
import warnings

import ml_dtypes
import numpy as np
import pytest

from cleargrad.devices.cpu.llvm.jit import lanes
from cleargrad.devices.cpu.llvm.reading import Unreadable, convert, read, readable
from cleargrad.devices.cpu.llvm.text import Code, Val
from cleargrad.expr import expr, numpy_reading
from tests.codegen.lanes import array_type, over_arrays

INF, NAN = math.inf, math.nan
FLOATS = ("float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
KINDS = (*FLOATS, *INTEGERS, "bool")


def build(name: str):
    """The constructor of a primitive; `drop` takes its zero from the formula."""
    return expr.special[name] if name in expr.special else getattr(expr, name)


def words(text: str) -> list[str]:
    return text.split()


COMPARISONS = words("lt le gt ge eq ne")
LOGIC = words("logical_and logical_or logical_xor")
EXACT_FLOAT = words(
    "add sub mul div fmod remainder floor_divide trunc_divide minimum maximum fmin fmax copysign neg abs sign"
    " square reciprocal sqrt floor ceil trunc round isnan isinf isfinite signbit identity conj real rectified"
)
CLOSE_FLOAT = words(
    "power atan2 hypot exp exp2 expm1 log log2 log10 log1p rsqrt sigmoid sin cos tan asin acos"
    " atan sinh cosh tanh asinh acosh atanh erf erfc"
)
WHOLE = words(
    "add sub mul minimum maximum fmin fmax neg abs sign square floor ceil trunc round isnan isinf isfinite signbit"
    " identity bit_and bit_or bit_xor bit_not shift_left shift_right rectified conj real"
)
BOOLEAN = words("add mul minimum maximum abs sign isnan isinf isfinite bit_and bit_or bit_xor bit_not")
CLAIMED = (
    [
        (name, kind)
        for kind in FLOATS
        for name in EXACT_FLOAT + CLOSE_FLOAT + COMPARISONS + LOGIC + ["logical_not"]
    ]
    + [(name, kind) for kind in INTEGERS for name in WHOLE + COMPARISONS + LOGIC + ["logical_not"]]
    + [(name, "bool") for name in BOOLEAN + COMPARISONS + LOGIC + ["logical_not"]]
)


def samples(kind: str, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    if kind == "bool":
        return random.integers(0, 2, 300).astype(np.bool_)
    if kind in INTEGERS:
        limits = np.iinfo(kind)
        ends = np.array([limits.min, limits.max, 0, 1, 2, 3, 7, 8, 31, 63], np.dtype(kind))
        low = -9 if limits.min else 0
        near = random.integers(low, 10, 300).astype(kind)
        return np.concatenate([ends, near, random.integers(limits.min, limits.max, 300, kind)])
    limits = np.finfo(kind)
    single = [0, 1, 2, 0.5, 1.5, 2.5, INF, NAN, limits.max, limits.smallest_normal, limits.smallest_subnormal]
    sizes = np.array(single, kind)
    return np.concatenate(
        [sizes, -sizes, random.normal(0, 3, 600).astype(kind), random.uniform(-1, 1, 200).astype(kind)]
    )


def pairs(kind: str) -> list[np.ndarray]:
    """Every particular value with every other, and random ones."""
    x, y = samples(kind), samples(kind, seed=1)
    few = 22 if kind in FLOATS else 10
    first, second = (grid.ravel() for grid in np.meshgrid(x[:few], y[:few]))
    return [np.concatenate([first, x]), np.concatenate([second, np.random.default_rng(2).permutation(y)])]


def compare(
    tree: expr.Expr, arrays: list[np.ndarray], kind: str, ulps: float = 0, width: int | None = None
) -> None:
    """Both readings of the tree on the arrays, which are of the kind or boolean."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        want = np.asarray(numpy_reading.read(tree, len(arrays))(*arrays))
    result = "bool" if want.dtype == np.bool_ else kind
    want = want.astype(array_type(result))
    run = over_arrays(
        lambda code, *values: read(code, tree, list(values), kind),
        [array.dtype.name for array in arrays],
        result,
        width or lanes(),
    )
    got = run(*arrays)
    if want.dtype.kind != "f":
        assert np.array_equal(got, want), different(got != want, arrays, got, want)
        return
    alike = np.isnan(got) & np.isnan(want) | (got == want)
    with np.errstate(all="ignore"):
        alike |= np.abs(got - want) <= ulps * np.spacing(np.abs(want))
        alike |= (np.nextafter(got, -got) == want) & (ulps > 0)
    assert alike.all(), different(~alike, arrays, got, want)


def different(where: np.ndarray, arrays: list[np.ndarray], got: np.ndarray, want: np.ndarray) -> str:
    place = int(np.flatnonzero(where)[0])
    return f"{[array[place] for array in arrays]}: {got[place]!r} instead of {want[place]!r}"


@pytest.mark.parametrize("name, kind", CLAIMED)
def test_primitive(name, kind):
    count = expr.PRIMITIVES[name]
    tree = build(name)(*[expr.Var(f"x{k}", k) for k in range(count)])
    assert readable(tree, kind)
    arrays = pairs(kind) if count == 2 else [samples(kind)]
    if name in ("sin", "cos", "tan"):
        arrays = [arrays[0][np.abs(arrays[0]) != np.finfo(kind).max]]  # NumPy's float32 is not exact there
    compare(tree, arrays, kind, ulps=6 if name in CLOSE_FLOAT else 0)


@pytest.mark.parametrize("kind", FLOATS)
def test_zeros_keep_their_signs(kind):
    zeros = np.array([0.0, -0.0], kind)
    for name in words(
        "neg floor ceil trunc round sqrt sin tan asin atan sinh tanh asinh atanh expm1 log1p erf identity"
    ):
        tree = build(name)(expr.Var("x", 0))
        run = over_arrays(lambda code, x, tree=tree: read(code, tree, [x], kind), [kind], kind, 4)
        flipped = name == "neg"
        assert (np.signbit(run(zeros)) == [flipped, not flipped]).all(), name


@pytest.mark.parametrize("kind", KINDS)
def test_where_and_drop(kind):
    x, y = pairs(kind)
    condition = np.random.default_rng(3).integers(0, 2, x.size).astype(np.bool_)
    tree, _ = expr.trace(lambda c, x, y: expr.where(c, x, y))
    assert readable(tree, kind)
    compare(tree, [condition, x, y], kind)
    tree, _ = expr.trace(lambda x, y: expr.drop(x, x > y))
    compare(tree, [x, y], kind)


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide", "trunc_divide"])
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, -1, -2, -5])
def test_integers_divided_by_literals(kind, name, divisor):
    if kind == "uint8" and divisor < 0:
        return
    tree, _ = expr.trace(lambda x: build(name)(x, divisor))
    assert readable(tree, kind)
    x = samples(kind)
    if name == "trunc_divide":
        # NumPy takes the rest off first, which overflows at the end.
        x = x[x != np.iinfo(kind).min] if kind != "uint8" else x
    compare(tree, [x], kind)


@pytest.mark.parametrize("kind", (*FLOATS, "int32", "int64"))
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5, 13, -1, -2, 0.5, -0.5, 1.5, 2.0, -3.25])
def test_literal_powers(kind, exponent):
    tree, _ = expr.trace(lambda x: x**exponent)
    if kind in INTEGERS and (exponent < 0 or isinstance(exponent, float)):
        assert not readable(tree, kind)
        return
    x = samples(kind)
    if exponent in (0.5, -0.5):
        x = x[~(np.isinf(x) | (x == 0)) | ~np.signbit(x)]  # PyTorch takes a root there, NumPy a power
    if exponent < 0:
        x = x[(np.abs(x) < 1e30) & (np.abs(x) > 1e-30) | ~np.isfinite(x)]  # the square may overflow earlier
    compare(tree, [x], kind, ulps=3)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logarithms_of_sums(name, kind):
    """Around zero the two parts cancel, so that only the digits of the larger operand are certain."""
    tree, _ = expr.trace(lambda x, y: build(name)(x, y))
    assert readable(tree, kind)
    x, y = pairs(kind)
    run = over_arrays(lambda code, x, y: read(code, tree, [x, y], kind), [kind, kind], kind, 4)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, y)
        certain = 4 * np.spacing(np.maximum(np.maximum(np.abs(x), np.abs(y)), 1))
        got = run(x, y)
        alike = (np.abs(got - want) <= certain) | (got == want) | np.isnan(got) & np.isnan(want)
    assert alike.all(), different(~alike, [x, y], got, want)


FORMULAS = {
    "relu": lambda x: expr.maximum(x, 0),
    "hardtanh": lambda x: expr.minimum(expr.maximum(x, -1.0), 1.0),
    "silu": lambda x: x * expr.sigmoid(x),
    "gelu": lambda x: 0.5 * x * (1 + expr.erf(x * 0.7071067811865476)),
    "softplus": lambda x: expr.maximum(x, 0) + expr.log1p(expr.exp(-expr.abs(x))),
    "leaky": lambda x, y: expr.where(x > 0, y, y * 0.01),
    "mask": lambda x, y: (x > 0) * y,
    "count": lambda x, y: (x > 0) + expr.where(y > x, 1, 0),
    "both": lambda x, y: (x > 0) & ~(y > 0),
    "shared": lambda x, y: expr.tanh(x + y) * (1 - expr.square(expr.tanh(x + y))),
    "frac": lambda x: x - expr.trunc(x),
}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("width", [1, 8])
def test_formulas(name, kind, width):
    tree, names = expr.trace(FORMULAS[name])
    assert readable(tree, kind)
    random = np.random.default_rng(5)
    arrays = [random.normal(0, 3, 1000).astype(kind) for _ in names]
    arrays[0][:4] = [NAN, INF, -INF, 0]
    with np.errstate(all="ignore"):
        want = np.asarray(numpy_reading.read(tree, len(arrays))(*arrays))
    result = "bool" if want.dtype == np.bool_ else kind
    run = over_arrays(
        lambda code, *values: read(code, tree, list(values), kind), [kind] * len(arrays), result, width
    )
    tolerance = 3e-6 if kind == "float32" else 1e-14
    np.testing.assert_allclose(run(*arrays), want, rtol=tolerance, atol=tolerance)


def test_what_it_does_not_know():
    x, y = expr.Var("x", 0), expr.Var("y", 1)
    hidden = [
        (expr.lgamma(x), "float32"),
        (expr.gcd(x, y), "int32"),
        (expr.floor_divide(x, y), "int32"),  # may be by zero
        (expr.remainder(x, 0), "int64"),
        (expr.power(x, y), "int64"),
        (expr.div(x, y), "int32"),  # NumPy makes another type of it
        (expr.exp(x), "int32"),
        (expr.mul(x, 0.5), "int32"),
        (expr.add(x, 300), "uint8"),
        (expr.sub(x, y), "bool"),
        (expr.add(x > 0, y > 0), "float32"),
        (expr.add(x, y), "complex64"),
        (expr.add(x, y), "float16"),  # computed in float32
        (expr.add(x, 1j), "float32"),
    ]
    for tree, kind in hidden:
        assert not readable(tree, kind), tree
        with pytest.raises(Unreadable):
            read(Code(), tree, [Val("%x", "i32"), Val("%y", "i32")], kind)


# Conversions -----------------------------------------------------------------------------------------------

ALL = (*KINDS, "float16", "bfloat16")


def stored(kind: str) -> np.ndarray:
    """Values of a dtype as they lie in memory."""
    if kind == "bfloat16":
        return np.arange(2**16, dtype=np.uint16)
    if kind == "float16":
        return np.arange(2**16, dtype=np.uint16).view(np.float16)
    if kind == "float32":
        random = (
            np.random.default_rng(6).integers(0, 2**32, 2**16, np.uint64).astype(np.uint32).view(np.float32)
        )
        # halfway between two float16 and two bfloat16, and beside
        ties = (np.arange(2**16, dtype=np.uint32) << 16 | 0x8000).view(np.float32)
        halves = (np.arange(2**15, dtype=np.uint32) << 13 | 0x38001000).view(np.float32)
        return np.concatenate([samples(kind), random, ties, halves, np.nextafter(halves, np.float32(0))])
    return samples(kind)


def numpy_type(kind: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if kind == "bfloat16" else np.dtype(kind)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_conversion(source, target):
    x = stored(source)
    values = x.view(numpy_type(source))
    if target in INTEGERS and source in (*FLOATS, "float16", "bfloat16"):
        bound = 2.0**63 if target == "int64" else 2.0**31
        with np.errstate(all="ignore"):
            keep = np.abs(values.astype(np.float64)) < bound  # further out the processor decides
        x, values = x[keep], values[keep]
    run = over_arrays(lambda code, x: convert(code, x, source, target), [source], target, lanes())
    got = run(x).view(numpy_type(target))
    with np.errstate(all="ignore"):
        if target in INTEGERS and source not in (*INTEGERS, "bool"):
            want = values.astype(np.int64).astype(target)
        elif target in ("float16", "bfloat16"):
            want = values.astype(np.float32).astype(numpy_type(target))
        else:
            want = values.astype(numpy_type(target))
    if target not in (*INTEGERS, "bool"):
        known = is_number(want)
        assert np.array_equal(is_number(got), known)
        got, want = got[known], want[known]
        assert np.array_equal(np.signbit(got), np.signbit(want))
    assert np.array_equal(got, want), different(got != want, [x], got, want)


def is_number(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # some NaN are signalling
        return ~np.isnan(x.astype(np.float64))
