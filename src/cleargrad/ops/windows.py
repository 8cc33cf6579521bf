"""Window functions: weights that fade a stretch of signal in and out.

A window is a curve over the unit interval, read at evenly spaced places; symmetric windows read both ends,
periodic ones leave the last out. torch.signal.windows and the older functions, such as torch.hann_window,
differ in their arguments only. Read next: ops/rectifier.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import as_index
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.creation import check_options, finish
from cleargrad.ops.declare import composite
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample

# Curves: t from 0 to 1, and the length of the interval in samples ------------------------------------------


def cosines(*coefficients: float) -> Callable:
    """a₀ − a₁ cos 2πt + a₂ cos 4πt − ..."""

    def curve(t: np.ndarray, span: float) -> np.ndarray:
        terms = [(-1) ** k * a * np.cos(2 * np.pi * k * t) for k, a in enumerate(coefficients)]
        return np.sum(terms, axis=0)

    return curve


HANN = cosines(0.5, 0.5)
HAMMING = cosines(0.54, 0.46)
BLACKMAN = cosines(0.42, 0.5, 0.08)
NUTTALL = cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411)


def bartlett_curve(t: np.ndarray, span: float) -> np.ndarray:
    return 1 - np.abs(2 * t - 1)


def cosine_curve(t: np.ndarray, span: float) -> np.ndarray:
    """Half a wave, read in the middle of `span` + 1 equal pieces."""
    return np.sin(np.pi * (t * span + 0.5) / (span + 1))


def kaiser_curve(beta: float) -> Callable:
    return lambda t, span: np.i0(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0))) / np.i0(beta)


def gaussian_curve(std: float) -> Callable:
    return lambda t, span: np.exp(-0.5 * ((t - 0.5) * span / std) ** 2)


def exponential_curve(center: float | None, tau: float) -> Callable:
    def curve(t: np.ndarray, span: float) -> np.ndarray:
        middle = span / 2 if center is None else center
        return np.exp(-np.abs(t * span - middle) / tau)

    return curve


def read(curve: Callable, length: int, periodic: bool, kind: dtypes.dtype) -> np.ndarray:
    if length <= 1:
        return np.ones(length, kind.numpy)
    span = length if periodic else length - 1
    return curve(np.arange(length) / span, float(span)).astype(kind.numpy)


# torch.signal.windows: (M, *, sym) -------------------------------------------------------------------------


def signal_window(
    op: str, curve: Callable, M: int, sym: bool, dtype: Any, device: Any, requires_grad: bool
) -> Tensor:
    check_options(op, dtype, device)
    kind = dtypes.get_default_dtype() if dtype is None else dtype
    length = as_index(op, M)
    if length < 0:
        raise error(ValueError, op, f"requires non-negative window length, got M={M}")
    if kind not in (dtypes.float32, dtypes.float64):
        raise error(ValueError, op, f"expects float32 or float64 dtypes, got: {kind}")
    return finish(read(curve, length, not sym, kind), requires_grad, device=device)


def window_samples(*options: dict) -> Callable:
    def samples() -> Iterator[Sample]:
        for length in (0, 1, 2, 5, 6):
            yield Sample(length)
            yield Sample(length, sym=False)
        yield Sample(4, dtype=dtypes.float64)
        for option in options:
            yield Sample(5, **option)
        yield Fails(ValueError, -1)
        yield Fails(ValueError, 4, dtype=dtypes.float16)
        yield Fails(TypeError, 2.5)

    return samples


def signal(samples: Callable) -> Callable:
    return composite(samples, spaces=("signal.windows",), vjp=NO_GRAD)


def plain(name: str, curve: Callable, words: str) -> None:
    """A window without parameters."""

    def function(
        M: int,
        *,
        sym: bool = True,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        return signal_window(name, curve, M, sym, dtype, device, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = words
    signal(window_samples())(function)


plain("bartlett", bartlett_curve, "A triangle: 1 − |2t − 1|.")
plain("hann", HANN, "½ − ½ cos 2πt.")
plain("hamming", HAMMING, "0.54 − 0.46 cos 2πt.")
plain("blackman", BLACKMAN, "0.42 − 0.5 cos 2πt + 0.08 cos 4πt.")
plain("nuttall", NUTTALL, "A sum of four cosines that falls off fast.")
plain("cosine", cosine_curve, "Half a wave of the sine.")


@signal(window_samples({"beta": 3.0}, {"beta": 0.0, "sym": False}))
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """I₀(β √(1 − (2t − 1)²)) / I₀(β)."""
    if beta < 0:
        raise error(ValueError, "kaiser", f"beta must be non-negative, got: {beta}")
    return signal_window("kaiser", kaiser_curve(beta), M, sym, dtype, device, requires_grad)


@signal(window_samples({"std": 0.7}))
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(−½ (n / std)²), n counted from the middle."""
    if std <= 0:
        raise error(ValueError, "gaussian", f"standard deviation must be positive, got: {std}")
    return signal_window("gaussian", gaussian_curve(std), M, sym, dtype, device, requires_grad)


@signal(window_samples({"tau": 0.7}, {"center": 1.0, "sym": False}))
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(−|n − center| / tau)."""
    if tau <= 0:
        raise error(ValueError, "exponential", f"tau must be positive, got: {tau}")
    if sym and center is not None:
        raise error(ValueError, "exponential", "center must be None for symmetric windows")
    return signal_window("exponential", exponential_curve(center, tau), M, sym, dtype, device, requires_grad)


def general_cosine_samples() -> Iterator[Sample]:
    yield Sample(5, a=[0.46, 0.23, 0.31])
    yield Sample(4, a=(0.5,), sym=False)
    yield Sample(1, a=[0.5, 0.5])
    yield Fails(ValueError, 4, a=[])
    yield Fails(TypeError, 4, a=3)


@signal(general_cosine_samples)
def general_cosine(
    M: int,
    *,
    a: Sequence[float],
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """a₀ − a₁ cos 2πt + a₂ cos 4πt − ..."""
    if not isinstance(a, (list, tuple)):
        raise error(
            TypeError, "general_cosine", f"coefficients must be a list or tuple, not {type(a).__name__}"
        )
    if not a:
        raise error(ValueError, "general_cosine", "coefficients cannot be empty")
    return signal_window("general_cosine", cosines(*a), M, sym, dtype, device, requires_grad)


@signal(window_samples({"alpha": 0.46}))
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """α − (1 − α) cos 2πt."""
    curve = cosines(alpha, 1 - alpha)
    return signal_window("general_hamming", curve, M, sym, dtype, device, requires_grad)


# torch.hann_window and its kin: (window_length, periodic, parameters) --------------------------------------


def older_form(op: str, curve_of: Callable, parameters: dict[str, float], words: str) -> None:
    def function(
        window_length: int,
        periodic: bool = True,
        *values: float,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **named: float,
    ) -> Tensor:
        check_options(op, dtype, device)
        kind = dtypes.get_default_dtype() if dtype is None else dtype
        length = as_index(op, window_length)
        if length < 0:
            raise error(RuntimeError, op, f"requires non-negative window_length, got {window_length}")
        if kind.category != dtypes.FLOAT:
            raise error(RuntimeError, op, f"expects floating point dtypes, got: {kind}")
        chosen = given(op, parameters, values, named)
        return finish(read(curve_of(**chosen), length, periodic, kind), requires_grad, device=device)

    def samples() -> Iterator[Sample]:
        for length in (0, 1, 2, 5, 6):
            yield Sample(length)
            yield Sample(length, False)
        yield Sample(5, True, *[0.4 for _ in parameters])
        yield Sample(4, periodic=False, dtype=dtypes.float64)
        yield Fails(RuntimeError, -1)
        yield Fails(RuntimeError, 4, dtype=dtypes.int64)
        yield Fails(TypeError, 2.5)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = words
    composite(samples, vjp=NO_GRAD)(function)


def given(op: str, parameters: dict[str, float], values: tuple, named: dict[str, float]) -> dict[str, float]:
    """The window's own parameters, which may follow by position or by name."""
    unknown = set(named) - set(parameters)
    if unknown or len(values) > len(parameters):
        rule = f"takes (window_length, periodic{''.join(', ' + name for name in parameters)})"
        raise error(TypeError, op, rule, given=(*values, *named))
    return {**parameters, **dict(zip(parameters, values)), **named}


older_form("bartlett_window", lambda: bartlett_curve, {}, "A triangle: 1 − |2t − 1|.")
older_form("hann_window", lambda: HANN, {}, "½ − ½ cos 2πt.")
older_form("blackman_window", lambda: BLACKMAN, {}, "0.42 − 0.5 cos 2πt + 0.08 cos 4πt.")
older_form(
    "hamming_window",
    lambda alpha, beta: cosines(alpha, beta),
    {"alpha": 0.54, "beta": 0.46},
    "alpha − beta cos 2πt.",
)
older_form("kaiser_window", kaiser_curve, {"beta": 12.0}, "I₀(β √(1 − (2t − 1)²)) / I₀(β).")
