"""Every function of devices/cpu/llvm/vector_math.py and vector_angles.py against exact values, in ulp."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from cleargrad.devices.cpu.llvm import vector_angles, vector_math
from cleargrad.devices.cpu.llvm.jit import lanes
from tests.codegen.lanes import over_arrays

INF, NAN = math.inf, math.nan

# name -> exact function of wider floats, and the greatest error seen on 2^23 floats, in ulp
SINGLE = {
    "exp": (np.exp, 1.6),
    "exp2": (np.exp2, 1.4),
    "expm1": (np.expm1, 1.6),
    "log": (np.log, 1.0),
    "log2": (np.log2, 1.7),
    "log10": (np.log10, 0.51),
    "log1p": (np.log1p, 1.6),
    "tanh": (np.tanh, 2.0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 2.0),
    "erf": (special.erf, 1.8),
    "erfc": (special.erfc, 0.51),
    "sqrt": (np.sqrt, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5),
    "sin": (np.sin, 1.6),
    "cos": (np.cos, 1.6),
    "tan": (np.tan, 0.51),
    "asin": (np.arcsin, 2.0),
    "acos": (np.arccos, 1.4),
    "atan": (np.arctan, 1.8),
    "sinh": (np.sinh, 0.51),
    "cosh": (np.cosh, 0.51),
    "asinh": (np.arcsinh, 0.51),
    "acosh": (np.arccosh, 0.51),
    "atanh": (np.arctanh, 0.51),
}
PAIRS = {"pow": (np.power, 0.51), "hypot": (np.hypot, 0.51), "atan2": (np.arctan2, 1.8)}
# Computed by vector instructions in double as well; the others call the C library.
DOUBLE = ("exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "sigmoid", "sqrt", "rsqrt")


def function(name: str):
    return getattr(vector_math, name, None) or getattr(vector_angles, name)


def every_exponent() -> np.ndarray:
    """2^16 floats: for each sign and exponent 128 mantissas, spread evenly, each at a random place."""
    step = 2**16
    start = np.arange(2**16, dtype=np.uint64) * step
    return (
        (start + np.random.default_rng(0).integers(0, step, start.size, np.uint64))
        .astype(np.uint32)
        .view(np.float32)
    )


def ordinary() -> np.ndarray:
    """Floats of the size that networks compute with, where most functions do something."""
    random = np.random.default_rng(1)
    sizes = [random.uniform(-1, 1, 2**15), random.uniform(-12, 12, 2**15), random.normal(0, 60, 2**15)]
    return np.concatenate(sizes).astype(np.float32)


def particular(kind: type) -> np.ndarray:
    limits = np.finfo(kind)
    tiny, small, huge = limits.smallest_subnormal, limits.smallest_normal, limits.max
    near = [
        np.nextafter(kind(1), kind(0)),
        np.nextafter(kind(1), kind(2)),
        1 / 3,
        2 / 3,
        4 / 3,
        1e-20,
        0.1,
        0.5,
    ]
    sizes = np.array(
        [0, 1, 2, 3, 4, 10, INF, NAN, tiny, 3 * tiny, small, small / 2, huge, 2**24, *near], kind
    )
    # where exp and its relatives become infinite, denormal and zero
    ends = [
        88.72284,
        87.33655,
        103.97208,
        103.27893,
        16.63553,
        128,
        126,
        149,
        150,
        709.78271,
        745.13322,
        36.7,
    ]
    both = np.concatenate([sizes, np.array(ends, kind)])
    return np.concatenate([both, -both])


def ulp(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors in units of the last digit of the right result; infinite where NaN, infinity or a zero's sign differ.

    An infinity in the place of the largest number is one unit away from it.
    """
    with np.errstate(all="ignore"):
        want = exact.astype(got.dtype)
        digit = np.spacing(np.abs(np.where(np.isfinite(want), want, 1)))
        error = np.abs(got - exact) / digit
        endless = ~np.isfinite(want) | ~np.isfinite(got)
        beside = np.nextafter(got, -got) == want
        beside |= np.nextafter(want, -want) == got
        agree = (got == want) | np.isnan(got) & np.isnan(want)
        error = np.where(endless, np.where(agree, 0, np.where(beside, 1, INF)), error)
        wrong_zero = (want == 0) & (got == 0) & (np.signbit(want) != np.signbit(got))
    return np.where(wrong_zero, INF, error).astype(np.float64)


def worst(got: np.ndarray, exact: np.ndarray, *inputs: np.ndarray) -> tuple[float, str]:
    error = ulp(got, exact)
    place = int(error.argmax())
    arguments = ", ".join([repr(x[place]) for x in inputs])
    return float(error[place]), f"at {arguments}: {got[place]!r} for {exact[place]!r}"


@pytest.mark.parametrize("name", SINGLE)
def test_floats_of_every_exponent(name):
    exact, allowed = SINGLE[name]
    x = np.concatenate([particular(np.float32), every_exponent(), ordinary()])
    run = over_arrays(lambda code, x: function(name)(code, x), ["float32"], "float32", lanes())
    with np.errstate(all="ignore"):
        error, place = worst(run(x), exact(x.astype(np.float64)), x)
    print(f"{name:8} {error:.3f} ulp {place}")
    assert error <= allowed, place


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_floats(name):
    exact, allowed = PAIRS[name]
    special_values = particular(np.float32)
    x, y = (grid.ravel() for grid in np.meshgrid(special_values, special_values))
    random = np.random.default_rng(2)
    # Powers whose result is finite: the exponent is what the base allows.
    base = np.exp2(random.uniform(-149, 128, 2**15))
    reach = random.uniform(-150, 128, base.size) / np.log2(base)
    x = np.concatenate([x, base.astype(np.float32), every_exponent(), ordinary()])
    y = np.concatenate([y, reach.astype(np.float32), random.permutation(every_exponent()), ordinary()[::-1]])
    run = over_arrays(lambda code, x, y: function(name)(code, x, y), ["float32"] * 2, "float32", lanes())
    with np.errstate(all="ignore"):
        error, place = worst(run(x, y), exact(x.astype(np.float64), y.astype(np.float64)), x, y)
    print(f"{name:8} {error:.3f} ulp {place}")
    assert error <= allowed, place


@pytest.mark.parametrize("name", DOUBLE)
def test_doubles(name):
    if np.finfo(np.longdouble).nmant < 60:
        exact_kind, allowed = np.float64, 4.0
    else:
        exact_kind, allowed = np.longdouble, 2.2
    random = np.random.default_rng(3)
    anything = random.integers(0, 2**63, 2**15, np.int64)
    x = np.concatenate(
        [
            particular(np.float64),
            anything.view(np.float64),
            -anything.view(np.float64),
            random.uniform(-2, 2, 2**14),
            random.uniform(-750, 750, 2**14),
        ]
    )
    run = over_arrays(lambda code, x: function(name)(code, x), ["float64"], "float64", lanes() // 2)
    with np.errstate(all="ignore"):
        error, place = worst(run(x), SINGLE[name][0](x.astype(exact_kind)), x)
    print(f"{name:8} {error:.3f} ulp {place}")
    assert error <= allowed, place


@pytest.mark.parametrize("name", sorted(set(SINGLE) - set(DOUBLE)))
def test_the_c_library_serves_rare_functions_of_doubles(name):
    x = np.concatenate([particular(np.float64), np.random.default_rng(4).uniform(-1, 1, 500)])
    x = x[~(np.abs(x) > 1e15)]  # NumPy's own sines are not exact further out
    run = over_arrays(lambda code, x: function(name)(code, x), ["float64"], "float64", 4)
    with np.errstate(all="ignore"):
        exact = np.vectorize(math.erfc) if name == "erfc" else SINGLE[name][0]  # SciPy's is less exact
        error, place = worst(run(x), exact(x), x)
    assert error <= 4, place


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "sin", "log10", "asinh"])
@pytest.mark.parametrize("width", [1, 2, 4, 16])
def test_any_width_gives_the_same_bits(name, width):
    x = np.concatenate([particular(np.float32), ordinary()[:500]])
    runs = [
        over_arrays(lambda code, x: function(name)(code, x), ["float32"], "float32", w) for w in (width, 8)
    ]
    assert np.array_equal(runs[0](x), runs[1](x), equal_nan=True)


def test_saturation_is_exact():
    """Beyond the ends nothing is left of the fraction."""
    x = np.array([9.5, 20, 88, 200, 1e30, INF], np.float32)
    for name, ends in {"tanh": (1, -1), "erf": (1, -1), "sigmoid": (1, 0), "exp": (INF, 0)}.items():
        run = over_arrays(lambda code, x, name=name: function(name)(code, x), ["float32"], "float32", 8)
        high, low = run(x)[2:] if name == "sigmoid" else run(x), run(-x)
        assert (high[-3:] == ends[0]).all() and (low[-3:] == ends[1]).all(), name
    run = over_arrays(lambda code, x: vector_math.tanh(code, x), ["float32"], "float32", 8)
    assert (run(x[1:]) == 1).all()
