"""What the random generator accepts: arguments go in, an error of PyTorch's type comes out if they are wrong.

Read next: core/generator.py, which asks here before it draws.
"""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np

from cleargrad.errors import error

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

# The bits of the significand, the hidden one included: integers up to 2**digits are exact.
DIGITS = {
    np.dtype(t): d for t, d in [(np.float16, 11), (ml_dtypes.bfloat16, 8), (np.float32, 24), (np.float64, 53)]
}


def checked_seed(seed: int) -> int:
    """A seed as 64 bits; negative ones mean 2**64 + seed."""
    if not isinstance(seed, int | np.integer):
        raise error(RuntimeError, "manual_seed", "the seed must be an integer", seed=seed)
    if not INT64_MIN <= seed < 2**64:
        raise error(ValueError, "manual_seed", "the seed must fit in 64 bits", seed=seed)
    return int(seed) % 2**64


def cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The values in `dtype`, rounded as PyTorch rounds."""
    if dtype.itemsize == 2 and dtype in DIGITS:
        values = values.astype(np.float32)  # half precision is reached by way of float32
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def check_float(op: str, dtype: np.dtype, kind: type[Exception]) -> None:
    if dtype not in DIGITS:
        raise error(kind, op, "the distribution needs a floating-point dtype", dtype=str(dtype))


def check_uniform_bounds(dtype: np.dtype, low: float, high: float) -> None:
    largest = float(ml_dtypes.finfo(dtype).max)
    if not (-largest <= low <= largest and -largest <= high <= largest):
        raise error(RuntimeError, "uniform_", f"a bound is out of range for {dtype}", low=low, high=high)
    if low > high:
        raise error(RuntimeError, "uniform_", "uniform_ expects low <= high", low=low, high=high)
    if high - low > largest:
        raise error(RuntimeError, "uniform_", f"high - low is too large for {dtype}", low=low, high=high)


def integer_bounds(low: int, high: int | None, dtype: np.dtype) -> tuple[int, int]:
    """The first and the last integer to draw: floats move the bounds to numbers they can represent."""
    asked: dict[str, Any] = {"low": low, "high": high, "dtype": str(dtype)}
    if high is not None and low >= high:
        raise error(RuntimeError, "random_", "the range is empty: low must be less than high", **asked)
    if dtype in DIGITS:
        low, last = _float_bounds(low, high, dtype)
    else:
        last = _largest(dtype) if high is None else high - 1
    if low > last:
        raise error(RuntimeError, "random_", f"the range is empty once its bounds are {dtype}", **asked)
    _check_in_range(low, last, dtype, asked)
    return low, last


def _float_bounds(low: int, high: int | None, dtype: np.dtype) -> tuple[int, int]:
    digits = DIGITS[dtype]
    rounded = _round_trip(low + 1, dtype)
    if rounded < low:
        low = rounded + _spacing(low + 1, digits)
    if high is None:
        return low, 2**digits
    rounded = _round_trip(high - 1, dtype)
    if rounded >= high:
        high = rounded - _spacing(high - 1, digits)
    return low, high - 1


def _round_trip(value: int, dtype: np.dtype) -> int:
    as_float = float(cast(np.array([value], np.int64), dtype)[0])
    return int(as_float) if np.isfinite(as_float) else value


def _spacing(value: int, digits: int) -> int:
    return 1 << max(abs(value).bit_length() - digits, 0)


def _largest(dtype: np.dtype) -> int:
    return 1 if dtype == np.bool_ else int(np.iinfo(dtype).max)


def _check_in_range(low: int, last: int, dtype: np.dtype, asked: dict) -> None:
    if dtype in DIGITS:
        largest = float(ml_dtypes.finfo(dtype).max)
        smallest = -largest
        exact = 2 ** DIGITS[dtype]
        if low < -exact or last > exact:
            text = f"random_: {dtype} cannot represent every integer of this range, only those up to {exact}"
            warnings.warn(text, UserWarning, stacklevel=4)
    else:
        largest = min(_largest(dtype), INT64_MAX)
        smallest = 0 if dtype == np.bool_ else int(np.iinfo(dtype).min)
    if low < smallest or last > largest:
        raise error(RuntimeError, "random_", f"a bound is out of range for {dtype}", **asked)


def check_permutation(n: int, dtype: np.dtype) -> None:
    if n < 0:
        raise error(RuntimeError, "randperm", "n must not be negative", n=n)
    if dtype == np.bool_ or dtype.kind == "c":
        raise error(
            NotImplementedError, "randperm", "there are no permutations of this dtype", dtype=str(dtype)
        )
    largest = 2 ** DIGITS[dtype] + 1 if dtype in DIGITS else _largest(dtype)
    if n > largest:
        raise error(
            RuntimeError, "randperm", f"{dtype} cannot hold all numbers below n", n=n, largest=largest
        )


def check_multinomial(probs: np.ndarray, num_samples: int, replacement: bool) -> None:
    if probs.ndim not in (1, 2):
        raise error(RuntimeError, "multinomial", "probabilities must be 1 or 2 dimensional", probs=probs)
    check_float("multinomial", probs.dtype, RuntimeError)
    if num_samples <= 0:
        raise error(
            RuntimeError, "multinomial", "the number of samples must be positive", num_samples=num_samples
        )
    if not replacement and num_samples > probs.shape[-1]:
        rule = "without replacement there cannot be more samples than categories"
        raise error(RuntimeError, "multinomial", rule, num_samples=num_samples, probs=probs)
    if probs.shape[-1] > 2**24:
        raise error(RuntimeError, "multinomial", "there may be at most 2**24 categories", probs=probs)
    if not (np.isfinite(probs) & (probs >= 0)).all():
        raise error(RuntimeError, "multinomial", "probabilities must be finite and not negative", probs=probs)
    if probs.size and not (probs > 0).any(axis=-1).all():
        raise error(RuntimeError, "multinomial", "a distribution's probabilities sum to zero", probs=probs)
