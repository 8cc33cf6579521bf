"""assert_close: numbers, tensors and containers of them that are equal up to rounding, or an AssertionError.

|actual - expected| <= atol + rtol * |expected|, with tolerances that follow the dtype. Read next:
testing/creation.py.
"""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleargrad.core.dtype import OF_NUMPY
from cleargrad.core.tensor import Tensor
from cleargrad.ops.creation import from_numpy

# (rtol, atol) by the name of the dtype; the larger of the two sides counts.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


@dataclass(frozen=True)
class Rules:
    """What assert_close was asked to check."""

    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_dtype: bool
    check_stride: bool
    allow_subclasses: bool

    def tolerances(self, *names: str) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        found = [TOLERANCES.get(name, (0.0, 0.0)) for name in names]
        return max(rtol for rtol, _ in found), max(atol for _, atol in found)


class Mismatch(Exception):
    """Two things differ; `path` says where in the containers around them."""

    def __init__(self, text: str, kind: type[Exception] = AssertionError):
        super().__init__(text)
        self.text = text
        self.kind = kind
        self.path = ""

    def whole_text(self) -> str:
        return f"{self.text}\n\nThe failure occurred for item {self.path}" if self.path else self.text


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises AssertionError unless `actual` and `expected` are close."""
    if (rtol is None) != (atol is None):
        which = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {which}.")
    rules = Rules(rtol, atol, equal_nan, check_dtype, check_stride, allow_subclasses)
    try:
        compare(actual, expected, rules)
    except Mismatch as found:
        text = found.whole_text()
        if found.kind is AssertionError and msg is not None:
            text = msg(text) if callable(msg) else msg
        raise found.kind(text) from None


def compare(actual: Any, expected: Any, rules: Rules) -> None:
    """The first difference as a Mismatch."""
    if (
        isinstance(actual, Sequence)
        and isinstance(expected, Sequence)
        and not isinstance(actual, (str, bytes))
    ):
        compare_sequences(actual, expected, rules)
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        compare_mappings(actual, expected, rules)
    elif actual is None and expected is None:
        return
    elif actual is None or expected is None:
        raise Mismatch(f"None mismatch: {actual} is not {expected}")
    elif isinstance(actual, (bool, np.bool_)) and isinstance(expected, (bool, np.bool_)):
        if bool(actual) is not bool(expected):
            raise Mismatch(f"Booleans mismatch: {actual} is not {expected}")
    elif isinstance(actual, (int, float, complex)) and isinstance(expected, (int, float, complex)):
        compare_numbers(actual, expected, rules)
    elif isinstance(actual, (Tensor, np.ndarray)) and type(actual) is type(expected):
        compare_tensors(actual, expected, rules)
    elif (
        isinstance(actual, Tensor) and isinstance(expected, Tensor) and rules.allow_subclasses
        and (isinstance(actual, type(expected)) or isinstance(expected, type(actual)))
    ):  # fmt: skip
        compare_tensors(actual, expected, rules)
    else:
        text = f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
        raise Mismatch(text, TypeError)


def compare_sequences(actual: Sequence, expected: Sequence, rules: Rules) -> None:
    if len(actual) != len(expected):
        raise Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
    for place, pair in enumerate(zip(actual, expected, strict=True)):
        compare_at(place, *pair, rules)


def compare_mappings(actual: Mapping, expected: Mapping, rules: Rules) -> None:
    missing = [key for key in expected if key not in actual]
    additional = [key for key in actual if key not in expected]
    if missing or additional:
        text = "The keys of the mappings do not match:"
        text += f"\nMissing keys in the actual mapping: {sorted(missing, key=str)}" if missing else ""
        text += (
            f"\nAdditional keys in the actual mapping: {sorted(additional, key=str)}" if additional else ""
        )
        raise Mismatch(text)
    for key in sorted(actual, key=str):
        compare_at(key, actual[key], expected[key], rules)


def compare_at(place: Any, actual: Any, expected: Any, rules: Rules) -> None:
    try:
        compare(actual, expected, rules)
    except Mismatch as found:
        found.path = f"[{place!r}]{found.path}"
        raise


def compare_numbers(actual: Any, expected: Any, rules: Rules) -> None:
    if rules.check_dtype and type(actual) is not type(expected):
        raise Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    names = {int: "int64", float: "float64", complex: "complex128"}
    rtol, atol = rules.tolerances(names.get(type(actual), ""), names.get(type(expected), ""))
    both_nan = cmath.isnan(actual) and cmath.isnan(expected)
    difference = abs(actual - expected)
    infinite = cmath.isinf(actual) or cmath.isinf(expected)
    close = not infinite and difference <= atol + rtol * abs(expected)
    if actual == expected or close or (rules.equal_nan and both_nan):
        return
    raise Mismatch(number_text(actual, expected, rtol, atol))


def number_text(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    exact = not rtol and not atol
    difference = abs(actual - expected)
    relative = difference / abs(expected) if expected else float("inf")
    return (
        f"Scalars are not {'equal' if exact else 'close'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{'' if exact else f' (up to {atol} allowed)'}\n"
        f"Relative difference: {relative}{'' if exact else f' (up to {rtol} allowed)'}"
    )


def compare_tensors(actual: Any, expected: Any, rules: Rules) -> None:
    actual, expected = (from_numpy(x) if isinstance(x, np.ndarray) else x for x in (actual, expected))
    for name, checked in (("shape", True), ("dtype", rules.check_dtype), ("stride()", rules.check_stride)):
        ours, theirs = (x.stride() if name == "stride()" else getattr(x, name) for x in (actual, expected))
        if checked and ours != theirs:
            raise Mismatch(f"The values for attribute '{name}' do not match: {ours} != {theirs}.")
    rtol, atol = rules.tolerances(actual.dtype.name, expected.dtype.name)
    left, right = widened(actual), widened(expected)
    close = np.isclose(left, right, rtol, atol, rules.equal_nan)
    if close.all():
        return
    if not close.ndim:
        raise Mismatch(number_text(left.item(), right.item(), rtol, atol))
    raise Mismatch(tensor_text(left, right, close, rtol, atol, expected._form.dtype))


def widened(tensor: Tensor) -> np.ndarray:
    """The values in a type in which differences do not overflow and half types can be compared."""
    data = tensor._data
    if data.dtype.kind in "bui":
        return data.astype(np.int64)
    return data.astype(np.float32) if OF_NUMPY[data.dtype].name in ("float16", "bfloat16") else data


def tensor_text(
    left: np.ndarray, right: np.ndarray, close: np.ndarray, rtol: float, atol: float, kind: np.dtype
) -> str:
    exact = not rtol and not atol
    with np.errstate(all="ignore"):
        difference = np.where(close, 0, np.abs(left - right))
        size = np.abs(right).astype(np.float32 if difference.dtype.kind == "i" else difference.dtype)
        relative = np.where(close, 0, difference / size).astype(size.dtype)
    if kind.kind in "fV":
        relative = relative.astype(kind)
    wrong, total = int((~close).sum()), close.size
    lines = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!",
        "",
        f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})",
    ]
    for name, values, allowed in (("absolute", difference, atol), ("relative", relative, rtol)):
        place = tuple(int(k) for k in np.unravel_index(int(np.argmax(values)), values.shape))
        limit = "" if exact else f" (up to {allowed} allowed)"
        lines.append(f"Greatest {name} difference: {_number(values[place])} at index {place}{limit}")
    return "\n".join(lines)


def _number(value: Any) -> Any:
    return float(value) if value.dtype.kind == "V" else value.item()


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The old form of assert_close: types need not agree, and nan equals nan."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    actual, expected = (x if isinstance(x, Tensor) else from_numpy(np.asarray(x)) for x in (actual, expected))
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None
    )
