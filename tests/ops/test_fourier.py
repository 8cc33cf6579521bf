"""Fourier transforms, windows, spectra: inverses, and complex gradients, which the op matrix leaves out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cleargrad as cg
from tests.ops.cases import close, numbers

FORWARD = ("fft", "ifft", "irfft", "hfft", "fft2", "ifftn", "irfftn", "hfft2")
OF_REALS = ("fft", "ifft", "rfft", "ihfft", "rfft2", "ihfftn", "fftn")


def options_of(name: str) -> list[dict]:
    if name[-1] in "2n":
        return [{}, {"s": (2, 7)}, {"s": (5, 3), "dim": (2, 0), "norm": "forward"}, {"norm": "ortho"}]
    return [{}, {"n": 3}, {"n": 8, "dim": 0, "norm": "forward"}, {"n": 1}, {"norm": "ortho"}]


def gradients(library, name: str, array: np.ndarray, options: dict) -> list[np.ndarray]:
    """A transform, the gradient of a function of it, and the gradient of a function of that."""
    x = library.from_numpy(array.copy()).requires_grad_(True)
    out = getattr(library.fft, name)(x, **options)
    size = out.abs().pow(3) if out.is_complex() else out.pow(3)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, tuple(out.shape))
    (first,) = library.autograd.grad((size * library.from_numpy(weights)).sum(), x, create_graph=True)
    size = first.abs() if first.is_complex() else first
    (second,) = library.autograd.grad(size.pow(3).sum(), x)
    return [numbers(tensor) for tensor in (out, first, second)]


@pytest.mark.parametrize(
    ("name", "real"), [(name, False) for name in FORWARD] + [(name, True) for name in OF_REALS]
)
def test_gradients(name: str, real: bool) -> None:
    generator = np.random.default_rng(0)
    array = generator.standard_normal((3, 4, 5))
    if not real:
        array = array + 1j * generator.standard_normal((3, 4, 5))
    for options in options_of(name):
        for ours, theirs in zip(
            gradients(cg, name, array, options), gradients(torch, name, array, options), strict=True
        ):
            scale = max(1.0, np.abs(theirs).max())
            close(ours / scale, theirs / scale, "float64", f"{name} {options}")


@pytest.mark.parametrize("kind", [cg.float32, cg.float64])
def test_precision_is_kept(kind: cg.dtype) -> None:
    x = cg.randn(4, 6, dtype=kind)
    assert cg.fft.rfft(x).dtype is kind.to_complex()
    assert cg.fft.irfft(cg.fft.rfft(x)).dtype is kind
    assert cg.fft.fftn(x).dtype is kind.to_complex()


def test_stft_gradient() -> None:
    array, window = np.random.default_rng(0).standard_normal((2, 12)), np.linspace(0.2, 1, 4)
    grads = []
    for library in (cg, torch):
        x = library.from_numpy(array.copy()).requires_grad_(True)
        w = library.from_numpy(window.copy()).requires_grad_(True)
        spectra = library.stft(x, 4, 2, window=w, return_complex=True)
        back = library.istft(spectra * (1 + 2j), 4, 2, window=w)
        (spectra.abs().pow(2).sum() + back.pow(3).sum()).backward()
        grads.append([numbers(x.grad), numbers(w.grad)])
    for ours, theirs in zip(*grads, strict=True):
        close(ours, theirs, "float64", "stft")


def test_istft_inverts_stft() -> None:
    x, window = cg.randn(3, 40, dtype=cg.float64), cg.hann_window(8, dtype=cg.float64)
    spectra = cg.stft(x, 8, window=window, return_complex=True)
    assert cg.allclose(cg.istft(spectra, 8, window=window, length=40), x)


def test_istft_warns_when_the_signal_is_too_short() -> None:
    spectra = cg.stft(cg.randn(12), 4, return_complex=True)
    with pytest.warns(UserWarning, match="padded with zeros"):
        assert cg.istft(spectra, 4, length=20).shape == (20,)


def test_windows_are_leaves() -> None:
    assert cg.hann_window(4, requires_grad=True).is_leaf
    assert cg.hann_window(4, dtype=cg.float16).dtype is cg.float16
    with pytest.raises(TypeError, match="window_length, periodic, alpha, beta"):
        cg.hamming_window(4, gamma=3.0)
