"""Top-level functions that few programs call: in-place forms, facts, old names. Loaded when first asked for.

Read next: settings.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from cleargrad.autograd.modes import set_detect_anomaly
from cleargrad.core.tensor import Tensor
from cleargrad.foreach import FUNCTIONS as FOREACH
from cleargrad.missing import missing
from cleargrad.ops.contractions import bilinear as bilinear
from cleargrad.ops.conversion import contiguous_format
from cleargrad.ops.creation import tensor
from cleargrad.ops.ranges import arange

# `torch.exp_(x)` is `x.exp_()`, and so on.
# fmt: off
METHODS = (
    "abs_", "acos_", "acosh_", "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_",
    "arctanh_", "as_strided_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "clamp_", "clamp_max_",
    "clamp_min_", "clip_", "conj_physical_", "cos_", "cosh_", "deg2rad_", "detach", "detach_", "erf_",
    "erfc_", "exp2_", "exp_", "expm1_", "fill_", "fix_", "floor_", "frac_", "gcd_", "get_device", "i0_",
    "index_put_", "is_conj", "is_distributed", "is_neg", "is_same_size", "is_signed", "lcm_", "ldexp_",
    "log10_", "log1p_", "log2_", "log_", "logit_", "nan_to_num_", "neg_", "negative_", "rad2deg_",
    "reciprocal_", "resize_as_", "round_", "rsqrt_", "sigmoid_", "sin_", "sinc_", "sinh_", "sqrt_",
    "square_", "tan_", "tanh_", "trunc_", "xlogy_", "zero_", "eig", "symeig", "solve", "lstsq",
)
# fmt: on
for _name in METHODS:
    globals()[_name] = getattr(Tensor, _name)

newaxis = None
legacy_contiguous_format = contiguous_format
set_anomaly_enabled = set_detect_anomaly


def matrix_rank(*args: Any, **kwargs: Any) -> Tensor:
    """Removed from PyTorch; torch.linalg.matrix_rank takes its place."""
    raise RuntimeError(
        "This function was removed from PyTorch. Please use `torch.linalg.matrix_rank` instead."
    )


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element as a row, from the highest to 0 or the other way round."""
    count = x.shape[0] if N is None else N
    powers = arange(count) if increasing else arange(count - 1, -1, -1)
    return x.unsqueeze(-1) ** powers


# Numbers that a compiler would not know yet; here all are known.


class SymInt:
    """The type of an integer that a compiler does not know yet; nothing is one."""


class SymFloat:
    """The type of such a float."""


class SymBool:
    """The type of such a truth value."""


sym_int, sym_float, sym_max, sym_min, sym_sqrt = int, float, max, min, math.sqrt


def sym_not(a: Any) -> bool:
    return not a


def sym_sum(args: Iterable) -> Any:
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    return t if b else f


# Checks that PyTorch's own Python code makes, and libraries with it.


def _assert(condition: Any, message: str) -> None:
    """An assert statement as a function."""
    assert condition, message


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], str] | None) -> None:
    """Raises an error whose message is made only when it is needed."""
    if not cond:
        stated = "Expected cond to be True, but got False." if message is None else str(message())
        raise error_type(stated)


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], str] | None = None) -> None:
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Callable[[], str] | None = None, *, max: int | None = None) -> None:
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: Callable[[], str] | None = None
) -> None:
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Tensor, message: Callable[[], str] | None = None) -> None:
    _check(bool(cond.all()), message)


def _shape_as_tensor(self: Tensor) -> Tensor:
    return tensor(list(self.shape))


CHECKS = (
    *("_assert", "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all"),
    *("_check_tensor_all_with", "_check_type", "_check_value", "_check_with", "_shape_as_tensor"),
)

SPARSE = [f"sparse_{kind}_tensor" for kind in ("coo", "csr", "csc", "bsr", "bsc", "compressed")]
for _name in SPARSE:
    globals()[_name] = missing(f"torch.{_name}", "have sparse tensors")

READERS = ["PyTorchFileReader", "PyTorchFileWriter"]
for _name in READERS:
    globals()[_name] = missing(
        f"torch.{_name}", "give access to parts of checkpoints", "use torch.load and torch.save"
    )

globals().update(FOREACH)

__all__ = [
    *CHECKS,
    *FOREACH,
    *METHODS,
    *READERS,
    *SPARSE,
    "SymBool",
    "SymFloat",
    "SymInt",
    "bilinear",
    "legacy_contiguous_format",
    "matrix_rank",
    "newaxis",
    "set_anomaly_enabled",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sqrt",
    "sym_sum",
    "vander",
]
