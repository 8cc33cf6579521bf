"""Spectra of short stretches of a signal, and the signal back from them: torch.stft and torch.istft.

The signal is cut into overlapping frames, each is weighted by a window and transformed. The way back adds the
weighted frames up again and divides by what the windows add up to. Read next: ops/windows.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor, is_seen
from cleargrad.errors import error
from cleargrad.ops.complex_numbers import view_as_real
from cleargrad.ops.declare import composite
from cleargrad.ops.fourier import complex_transform, plane, transform_from_real, transform_to_real
from cleargrad.ops.padding import pad
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.strides import unfold_vjp
from cleargrad.ops.views import check_tensor


def stft_samples() -> Iterator[Sample]:
    weights = real(4, low=0.2, high=1.0)
    yield Sample(real(10), 4, window=weights, return_complex=True)
    yield Sample(real(2, 9), 4, 3, 3, real(3, low=0.2, high=1.0), False, return_complex=True)
    yield Sample(real(9), 5, hop_length=2, pad_mode="constant", normalized=True, return_complex=True)
    yield Sample(real(8), 4, window=weights, onesided=False, return_complex=True)
    yield Sample(real(8), 4, 1, window=weights, return_complex=False)
    yield Sample(real(9), 4, 2, 2, center=False, align_to_window=True, return_complex=True)
    yield Sample(plane(2, 8), 4, window=weights)
    yield Fails(RuntimeError, real(8), 4)
    yield Fails(RuntimeError, real(8), 20, center=False, return_complex=True)
    yield Fails(RuntimeError, real(8), 4, 0, return_complex=True)
    yield Fails(RuntimeError, real(8), 4, win_length=5, return_complex=True)
    yield Fails(RuntimeError, real(8), 4, window=real(3), return_complex=True)
    yield Fails(RuntimeError, real(1, 1, 8), 4, return_complex=True)
    yield Fails(RuntimeError, whole(8), 4, return_complex=True)
    yield Fails(RuntimeError, plane(8), 4, onesided=True)
    yield Fails(RuntimeError, real(8), 4, align_to_window=True, return_complex=True)


@composite(stft_samples, method=True)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The spectra of frames of `n_fft` samples, `hop_length` apart: (batch?, frequencies, frames)."""
    check_tensor("stft", input)
    check_signal(input, center, align_to_window)
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    signal = input if input._form.ndim == 2 else input.unsqueeze(0)  # (batch, samples)
    if center:
        signal = centred(signal, n_fft // 2, pad_mode)
    elif align_to_window:
        signal = pad(signal, [(n_fft - width) // 2, (n_fft - width) // 2])
    if not 0 < n_fft <= signal._form.shape[1]:
        rule = f"expected 0 < n_fft <= {signal._form.shape[1]}, but got n_fft={n_fft}"
        raise error(RuntimeError, "stft", rule, input=input)
    weights = whole_window("stft", input, window, n_fft, hop, width)
    is_complex = input.dtype.is_complex or (weights is not None and weights.dtype.is_complex)
    if return_complex is None and not is_complex:
        rule = "stft requires the return_complex parameter be given for real inputs"
        raise error(RuntimeError, "stft", rule, fix="pass return_complex=True")
    frames = signal.unfold(1, n_fft, hop)  # (batch, frames, n_fft)
    if weights is not None:
        frames = frames * weights
    spectra = spectra_of(frames, normalized, not is_complex if onesided is None else onesided)
    spectra = spectra.transpose(1, 2)  # (batch, frequencies, frames)
    spectra = spectra if input._form.ndim == 2 else spectra.squeeze(0)
    return spectra if return_complex or return_complex is None else as_pairs(spectra)


def check_signal(input: Tensor, center: bool, align_to_window: bool | None) -> None:
    if input.dtype.category < dtypes.FLOAT:
        rule = "expected a tensor of floating point or complex values"
        raise error(RuntimeError, "stft", rule, input=input)
    if input._form.ndim not in (1, 2):
        raise error(RuntimeError, "stft", "expected a 1D or 2D tensor", input=input)
    if center and align_to_window is not None:
        raise error(RuntimeError, "stft", "align_to_window should only be set when center=False")


def centred(signal: Tensor, margin: int, pad_mode: str) -> Tensor:
    """Samples before and behind the signal, so that the first frame has its first sample in the middle."""
    return pad(signal.unsqueeze(0), [margin, margin], pad_mode).squeeze(0)


def whole_window(
    op: str, input: Tensor, window: Tensor | None, n_fft: int, hop: int, width: int
) -> Tensor | None:
    """The window between zeros that fill it up to n_fft; None when every weight is one."""
    if hop <= 0:
        raise error(RuntimeError, op, f"expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise error(RuntimeError, op, f"expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is None:
        if width == n_fft:
            return None
        window = input.new_ones(width, dtype=input.dtype.to_real())
    if window._form.shape != (width,):
        raise error(RuntimeError, op, f"expected a 1D window tensor of size {width}", window=window)
    if window.dtype.category < dtypes.FLOAT:
        window = window.to(input.dtype.to_real())
    before = (n_fft - width) // 2
    return pad(window, [before, n_fft - width - before]) if width < n_fft else window


def spectra_of(frames: Tensor, normalized: bool, onesided: bool) -> Tensor:
    norm = "ortho" if normalized else "backward"
    if not frames.dtype.is_complex:
        return transform_from_real(frames, dims=(2,), norm=norm, half=onesided)
    if onesided:
        raise error(RuntimeError, "stft", "cannot have onesided output if window or input is complex")
    return complex_transform(frames, dims=(2,), norm=norm, inverse=False)


def as_pairs(spectra: Tensor) -> Tensor:
    words = (
        "stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex "
        "tensors for all inputs, and return_complex=False will raise an error."
    )
    warnings.warn(words, UserWarning, stacklevel=3)
    return view_as_real(spectra)


# The way back ----------------------------------------------------------------------------------------------


def istft_samples() -> Iterator[Sample]:
    weights = real(4, low=0.2, high=1.0)
    yield Sample(plane(3, 5), 4, window=weights)
    yield Sample(plane(2, 3, 5), 4, 2, window=weights, normalized=True)
    yield Sample(plane(4, 5), 4, 1, 3, real(3, low=0.2, high=1.0), length=3)
    yield Sample(plane(3, 4), 4, center=False)
    yield Sample(plane(3, 4), 5, length=6)
    yield Sample(plane(4, 4), 4, window=weights, return_complex=True)
    yield Sample(plane(3, 3), 4, 2, length=7)
    yield Fails(RuntimeError, real(3, 5), 4)
    yield Fails(RuntimeError, plane(3, 5), 6)
    yield Fails(RuntimeError, plane(3, 5), 4, 5)
    yield Fails(RuntimeError, plane(3, 5), 4, window=np.zeros(4))
    yield Fails(RuntimeError, plane(3, 5), 4, return_complex=True)


@composite(istft_samples, method=True)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose spectra (batch?, frequencies, frames) are, as close as windows allow, the input."""
    check_tensor("istft", input)
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    check_spectra(input, n_fft, hop, width, onesided)
    weights = whole_window("istft", input, window, n_fft, hop, width)
    spectra = input if input._form.ndim == 3 else input.unsqueeze(0)
    frames = frames_of(spectra.transpose(1, 2), n_fft, normalized, onesided, return_complex, weights)
    if weights is None:
        weights = input.new_ones(n_fft, dtype=input.dtype.to_real())
    count = frames._form.shape[1]
    envelope = overlapped((weights * weights).expand(1, count, n_fft), hop)
    start = n_fft // 2 if center else 0
    total = n_fft + hop * (count - 1)
    end = start + length if length is not None else total - start
    envelope = envelope[:, start:end]
    check_envelope(envelope)
    signal = overlapped(frames * weights, hop)[:, start:end] / envelope
    if end > total:
        signal = pad(signal, [0, end - total])
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in "
            "the tail. Please check your center and hop_length settings.",
            UserWarning,
            stacklevel=2,
        )
    return signal if input._form.ndim == 3 else signal.squeeze(0)


def check_spectra(input: Tensor, n_fft: int, hop: int, width: int, onesided: bool | None) -> None:
    shape = input._form.shape
    if not input.dtype.is_complex:
        rule = "requires a complex-valued input tensor, as from stft with return_complex=True"
        raise error(RuntimeError, "istft", rule, input=input)
    if len(shape) not in (2, 3) or not input._form.size:
        rule = "expected a tensor (batch?, frequencies, frames) that is not empty"
        raise error(RuntimeError, "istft", rule, input=input)
    if not 0 < hop <= width:
        raise error(RuntimeError, "istft", "expected 0 < hop_length <= win_length", hop=hop, win_length=width)
    half = shape[-2] != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if half else n_fft
    if shape[-2] != expected:
        rule = f"expected {expected} frequencies for n_fft={n_fft}, got {shape[-2]}"
        raise error(RuntimeError, "istft", rule, input=input)


def frames_of(
    spectra: Tensor,
    n_fft: int,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool,
    weights: Tensor | None,
) -> Tensor:
    """(batch, frames, frequencies) to (batch, frames, n_fft)."""
    norm = "ortho" if normalized else "backward"
    half = spectra._form.shape[2] != n_fft if onesided is None else onesided
    if return_complex:
        if half:
            rule = "cannot have onesided output if window or input is complex"
            raise error(RuntimeError, "istft", rule, fix="pass onesided=False, and all frequencies")
        return complex_transform(spectra, dims=(2,), norm=norm, inverse=True)
    if weights is not None and weights.dtype.is_complex:
        raise error(RuntimeError, "istft", "complex windows are incompatible with return_complex=False")
    if not half:
        spectra = spectra[..., : n_fft // 2 + 1]
    return transform_to_real(spectra, dims=(2,), norm=norm, length=n_fft)


def overlapped(frames: Tensor, hop: int) -> Tensor:
    """The sum of frames (batch, frames, n_fft), each `hop` behind the one before: the adjoint of unfold."""
    batch, count, size = frames._form.shape
    return unfold_vjp(frames, x_shape=(batch, size + hop * (count - 1)), dim=1, size=size, step=hop)


def check_envelope(envelope: Tensor) -> None:
    """The windows must leave no sample out; a recorded program trusts that they do."""
    if is_seen(envelope) and envelope._form.size and np.abs(envelope._data).min() <= 1e-11:
        rule = "the windows, added up, are zero at some place: the signal there is lost"
        raise error(
            RuntimeError, "istft", rule, fix="use a window without zeros, a smaller hop, or center=True"
        )
