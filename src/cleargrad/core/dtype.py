"""Data types and PyTorch's promotion rules.

A `dtype` names the type of a tensor's elements and knows its NumPy twin. `promote_types` joins two of them,
`result_type` joins operands of an op, where dimensioned tensors outrank 0-d tensors and those outrank Python
numbers. Read next: core/tensor.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from cleargrad.core.mode import structure
from cleargrad.errors import error

BOOL, INTEGER, FLOAT, COMPLEX = range(4)  # categories, in PyTorch's order of rank


class dtype:
    """The type of a tensor's elements; prints as PyTorch's, since scripts print it."""

    __slots__ = (
        "category",
        "is_complex",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
        "stored",
    )

    def __init__(self, name: str, numpy_type: Any, category: int, stored: bool = False):
        self.name = name
        self.numpy = np.dtype(numpy_type)
        self.category = category
        self.stored = stored  # tensors of it are copied, converted and compared, but not computed with
        self.itemsize = self.numpy.itemsize
        self.is_floating_point = category == FLOAT
        self.is_complex = category == COMPLEX
        self.is_signed = category != BOOL and self.numpy.kind != "u" and name != "float8_e8m0fnu"

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self):
        return _by_name, (self.name,)

    def __deepcopy__(self, memo: dict) -> dtype:
        return self

    def to_real(self) -> dtype:
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        return {float64: complex128}.get(self, self if self.is_complex else complex64)


bool_ = dtype("bool", np.bool_, BOOL)
uint8 = dtype("uint8", np.uint8, INTEGER)
int8 = dtype("int8", np.int8, INTEGER)
int16 = dtype("int16", np.int16, INTEGER)
int32 = dtype("int32", np.int32, INTEGER)
int64 = dtype("int64", np.int64, INTEGER)
float16 = dtype("float16", np.float16, FLOAT)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, FLOAT)
float32 = dtype("float32", np.float32, FLOAT)
float64 = dtype("float64", np.float64, FLOAT)
complex64 = dtype("complex64", np.complex64, COMPLEX)
complex128 = dtype("complex128", np.complex128, COMPLEX)

uint16 = dtype("uint16", np.uint16, INTEGER, stored=True)
uint32 = dtype("uint32", np.uint32, INTEGER, stored=True)
uint64 = dtype("uint64", np.uint64, INTEGER, stored=True)
float8_e4m3fn = dtype("float8_e4m3fn", ml_dtypes.float8_e4m3fn, FLOAT, stored=True)
float8_e4m3fnuz = dtype("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, FLOAT, stored=True)
float8_e5m2 = dtype("float8_e5m2", ml_dtypes.float8_e5m2, FLOAT, stored=True)
float8_e5m2fnuz = dtype("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, FLOAT, stored=True)
float8_e8m0fnu = dtype("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, FLOAT, stored=True)

ALL = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128)
UNSIGNED = (uint16, uint32, uint64)
FLOAT8 = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu)
ALIASES = {
    "float": float32,
    "double": float64,
    "half": float16,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
}
OF_NUMPY: dict[np.dtype, dtype] = {kind.numpy: kind for kind in (*ALL, *UNSIGNED, *FLOAT8)}
NARROW = {float16.numpy, bfloat16.numpy}  # computed in float32, as PyTorch does, and rounded once

_NAMES = {kind.name: kind for kind in (*ALL, *UNSIGNED, *FLOAT8)}
_default = float32


def _by_name(name: str) -> dtype:
    return _NAMES[name]


def of_array(array: np.ndarray) -> dtype | None:
    """The dtype of a NumPy array, or None when we have no such type."""
    return OF_NUMPY.get(array.dtype)


when_default_changes: list[Callable[[dtype], object]] = []  # called before, with what it will be


def get_default_dtype() -> dtype:
    return _default


def set_default_dtype(kind: dtype, /) -> None:
    """The dtype that Python floats and factories without `dtype=` get."""
    global _default
    if not isinstance(kind, dtype) or kind.category != FLOAT:
        rule = f"only floating-point types are supported as the default type, not {kind}"
        raise error(TypeError, "set_default_dtype", rule)
    if kind is _default:
        return
    for call in when_default_changes:
        call(kind)
    _default = kind
    structure.version += 1
    structure.defaults += 1


def default_complex() -> dtype:
    return complex128 if _default is float64 else complex64


def of_number(number: object) -> dtype:
    """The dtype a Python number would get as a tensor."""
    if isinstance(number, (bool, np.bool_)):
        return bool_
    if isinstance(number, (int, np.integer)):
        return int64
    if isinstance(number, (float, np.floating)):
        return _default
    return default_complex()


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that holds both, as PyTorch's table says."""
    if a is b:
        return a
    if a in FLOAT8 or b in FLOAT8:
        raise error(RuntimeError, "promote_types", f"promotion of float8 types is not supported: {a} and {b}")
    if (a in UNSIGNED or b in UNSIGNED) and FLOAT not in (a.category, b.category):
        rule = f"promotion of uint16, uint32 and uint64 is not supported: {a} and {b}"
        raise error(RuntimeError, "promote_types", rule)
    if a.category != b.category:
        high, low = (a, b) if a.category > b.category else (b, a)
        wide = high is complex64 and low is float64  # the only pair where the lower category widens
        return complex128 if wide else high
    if {a, b} == {float16, bfloat16}:
        return float32
    if a.category == INTEGER and uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return a if a.itemsize > b.itemsize else b


def can_cast(source: dtype, target: dtype) -> bool:
    """Whether a result of type `source` may be written into a tensor of type `target`."""
    return source.category <= target.category


def result_dtype(dimensioned: dtype | None, zero_dim: dtype | None, number: dtype | None) -> dtype:
    """Joins the three ranks of operands: a lower rank counts only when its category is higher."""
    result = None
    for kind in (dimensioned, zero_dim, number):
        if kind is None:
            continue
        if result is None:
            result = kind
        elif kind.category > result.category:
            # A complex number beside a floating-point tensor takes the tensor's precision.
            result = result.to_complex() if kind.is_complex and result.is_floating_point else kind
    assert result is not None
    return result


class finfo:
    """The limits of a floating-point type."""

    def __init__(self, type: dtype | None = None):
        kind = (type or _default).to_real()
        if kind.category != FLOAT:
            raise TypeError(f"finfo() needs a floating-point type, not {kind}; use iinfo() for integers")
        info = ml_dtypes.finfo(kind.numpy)
        self.dtype, self.bits = kind.name, info.bits
        self.max, self.min, self.eps = float(info.max), float(info.min), float(info.eps)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = (
            1.0 if kind in FLOAT8 else float(f"1e-{info.precision}")
        )  # 8 bits hold no decimal digit

    def __repr__(self) -> str:
        fields = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{name}={getattr(self, name):g}' for name in fields)}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer type."""

    def __init__(self, type: dtype):
        if type.category != INTEGER:
            raise TypeError(f"iinfo() needs an integer type, not {type}; use finfo() for floats")
        info = np.iinfo(type.numpy)
        self.dtype, self.bits, self.max, self.min = type.name, info.bits, info.max, info.min

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
