"""Fourier transforms: torch.fft.

Three kernels do all the work, over any dimensions: complex to complex, real to complex and complex to real.
Each is linear, so its vjp is its adjoint: the transform in the other direction, scaled the same. The faces
only bring arguments into one form. Read next: ops/spectrogram.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.shape import Spec, as_index, wrap_dims
from cleargrad.core.tensor import Tensor, wrap_beside
from cleargrad.errors import error
from cleargrad.ops.creation import check_options, finish
from cleargrad.ops.declare import composite, opaque
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.padding import pad
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# Which direction is divided by n: PyTorch and NumPy name the mode by it. Seen from the other direction, where
# adjoints look from, it has the other name.
OTHER_WAY = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def plane(*shape: int, seed: int = 0) -> np.ndarray:
    """Complex numbers for samples."""
    return real(*shape, seed=seed) + 1j * real(*shape, seed=seed + 1)


# The kernels -----------------------------------------------------------------------------------------------


def run_complex(x: np.ndarray, *, dims: tuple[int, ...], norm: Any, inverse: bool) -> np.ndarray:
    transform = np.fft.ifftn if inverse else np.fft.fftn
    return transform(x, axes=dims, norm=norm)


def run_from_real(x: np.ndarray, *, dims: tuple[int, ...], norm: Any, half: bool) -> np.ndarray:
    transform = np.fft.rfftn if half else np.fft.fftn
    return transform(x, axes=dims, norm=norm)


def run_to_real(x: np.ndarray, *, dims: tuple[int, ...], norm: Any, length: int) -> np.ndarray:
    sizes = [x.shape[dim] for dim in dims[:-1]]
    return np.fft.irfftn(x, s=(*sizes, length), axes=dims, norm=norm)


def from_real_spec(x: Tensor, *, dims: tuple[int, ...], norm: str, half: bool) -> Spec:
    shape = list(x._form.shape)
    if half:
        shape[dims[-1]] = shape[dims[-1]] // 2 + 1
    return Spec(tuple(shape), x.dtype.to_complex())


def to_real_spec(x: Tensor, *, dims: tuple[int, ...], norm: str, length: int) -> Spec:
    shape = list(x._form.shape)
    shape[dims[-1]] = length
    return Spec(tuple(shape), x.dtype.to_real())


def multiplicity(like: Tensor, dim: int, length: int) -> Tensor:
    """How many of the `length` frequencies an entry of half a spectrum stands for: itself, or ±k."""
    count = np.full(length // 2 + 1, 2, like.dtype.to_real().numpy)
    count[0] = 1
    if length % 2 == 0:
        count[-1] = 1
    return wrap_beside(count.reshape(-1, *[1] * (like._form.ndim - dim - 1)), like)


def from_real_vjp(
    g: Tensor, *, x_shape: tuple[int, ...], dims: tuple[int, ...], norm: str, half: bool
) -> Tensor:
    if not half:
        return complex_transform(g, dims=dims, norm=OTHER_WAY[norm], inverse=True).real
    length = x_shape[dims[-1]]
    spread = g / multiplicity(g, dims[-1], length)
    return transform_to_real(spread, dims=dims, norm=OTHER_WAY[norm], length=length)


def to_real_vjp(g: Tensor, *, dims: tuple[int, ...], norm: str, length: int) -> Tensor:
    spectrum = transform_from_real(g, dims=dims, norm=OTHER_WAY[norm], half=True)
    return spectrum * multiplicity(spectrum, dims[-1], length)


def kernel_samples(*options: dict, complex_input: bool) -> Callable:
    def samples() -> Iterator[Sample]:
        for number, option in enumerate(options):
            make = plane if complex_input else real
            yield Sample(make(3, 4, 2, seed=number), **option)

    return samples


complex_transform = opaque(
    "fft_c2c",
    spec=lambda x, *, dims, norm, inverse: Spec(x._form.shape, x.dtype),
    run=run_complex,
    vjp=lambda g, *, dims, norm, inverse: complex_transform(
        g, dims=dims, norm=OTHER_WAY[norm], inverse=not inverse
    ),
    samples=kernel_samples(
        {"dims": (1,), "norm": "backward", "inverse": False},
        {"dims": (0, 2), "norm": "ortho", "inverse": True},
        complex_input=True,
    ),
    node="FftC2CBackward0",
)
transform_from_real = opaque(
    "fft_r2c",
    spec=from_real_spec,
    run=run_from_real,
    vjp=from_real_vjp,
    samples=kernel_samples(
        {"dims": (0,), "norm": "backward", "half": True},
        {"dims": (2, 1), "norm": "forward", "half": True},
        {"dims": (0, 1), "norm": "ortho", "half": False},
        complex_input=False,
    ),
    node="FftR2CBackward0",
)
transform_to_real = opaque(
    "fft_c2r",
    spec=to_real_spec,
    run=run_to_real,
    vjp=to_real_vjp,
    samples=kernel_samples(
        {"dims": (0,), "norm": "backward", "length": 5},
        {"dims": (0, 1), "norm": "forward", "length": 6},
        complex_input=True,
    ),
    node="FftC2RBackward0",
)


# Arguments -------------------------------------------------------------------------------------------------


def floating(op: str, input: Tensor) -> Tensor:
    """Integers become the default float; there is no transform of narrow floats."""
    check_tensor(op, input)
    if input.dtype.category < dtypes.FLOAT:
        input = input.to(dtypes.get_default_dtype())
    if input._form.dtype in dtypes.NARROW:
        raise error(RuntimeError, op, f"unsupported dtype {input.dtype}", input=input, fix="use .float()")
    return input


def check_norm(op: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in OTHER_WAY:
        rule = f"norm must be 'forward', 'backward' or 'ortho', but got {norm!r}"
        raise error(RuntimeError, op, rule)
    return norm


def dims_and_lengths(op: str, input: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int | None]]:
    """The dimensions to transform, and for each the length that is asked for, or None for its own."""
    rank = input._form.ndim
    wanted = None if s is None else list(s) if isinstance(s, (tuple, list)) else [s]
    if dim is not None:
        if not rank:
            raise error(IndexError, op, f"dimension specified as {dim} but tensor has no dimensions")
        dims = wrap_dims(op, dim, rank)
    else:
        count = rank if wanted is None else len(wanted)
        if count > rank:
            rule = f"got shape with {count} values but input tensor only has {rank} dimensions"
            raise error(RuntimeError, op, rule, input=input, s=s)
        dims = tuple(range(rank - count, rank))
    if wanted is None:
        return dims, [None] * len(dims)
    if len(wanted) != len(dims):
        rule = "when given, dim and shape arguments must have the same length"
        raise error(RuntimeError, op, rule, s=s, dim=dim)
    return dims, [None if length == -1 else as_index(op, length) for length in wanted]


def resized(op: str, input: Tensor, dims: tuple[int, ...], lengths: list[int | None]) -> Tensor:
    """The input cut off, or filled up with zeros, to the lengths of the transform."""
    shape = input._form.shape
    growth = dict.fromkeys(range(len(shape)), 0)
    for dim, length in zip(dims, lengths, strict=True):
        length = shape[dim] if length is None else length
        if length < 1:
            raise error(RuntimeError, op, f"invalid number of data points ({length}) specified", input=input)
        growth[dim] = length - shape[dim]
    if not any(growth.values()):
        return input
    return pad(input, [edge for dim in reversed(growth) for edge in (0, growth[dim])])


# The six transforms: (op, input, dims, lengths, norm) ------------------------------------------------------


def whole_spectrum(inverse: bool) -> Callable:
    def transform(op: str, input: Tensor, dims: tuple, lengths: list, norm: str) -> Tensor:
        input = resized(op, floating(op, input), dims, lengths)
        if len(dims) != 1:
            input = input.to(input.dtype.to_complex())
        if not dims:
            return input.clone()
        if input.dtype.is_complex:
            return complex_transform(input, dims=dims, norm=norm, inverse=inverse)
        if not inverse:
            return transform_from_real(input, dims=dims, norm=norm, half=False)
        return transform_from_real(input, dims=dims, norm=OTHER_WAY[norm], half=False).conj()

    return transform


def half_spectrum(inverse: bool) -> Callable:
    """Of real input: the frequencies from zero to the middle; the others are their conjugates."""

    def transform(op: str, input: Tensor, dims: tuple, lengths: list, norm: str) -> Tensor:
        input = floating(op, input)
        if input.dtype.is_complex:
            raise error(RuntimeError, op, f"expects a real input tensor, but got {input.dtype}", input=input)
        check_any(op, dims)
        input = resized(op, input, dims, lengths)
        if not inverse:
            return transform_from_real(input, dims=dims, norm=norm, half=True)
        return transform_from_real(input, dims=dims, norm=OTHER_WAY[norm], half=True).conj()

    return transform


def from_half_spectrum(inverse: bool) -> Callable:
    """To real output, whose length half a spectrum does not know: 2·(size − 1) unless it is given."""

    def transform(op: str, input: Tensor, dims: tuple, lengths: list, norm: str) -> Tensor:
        input = floating(op, input)
        check_any(op, dims)
        *others, length = lengths
        if length is None:
            length = 2 * (input._form.shape[dims[-1]] - 1)
        if length < 1:
            raise error(RuntimeError, op, f"invalid number of data points ({length}) specified", input=input)
        spectrum = resized(op, input.to(input.dtype.to_complex()), dims, [*others, length // 2 + 1])
        if inverse:
            return transform_to_real(spectrum, dims=dims, norm=norm, length=length)
        return transform_to_real(spectrum.conj(), dims=dims, norm=OTHER_WAY[norm], length=length)

    return transform


def check_any(op: str, dims: tuple) -> None:
    if not dims:
        raise error(RuntimeError, op, "must transform at least one axis")


# Their faces: one dimension, two, or any -------------------------------------------------------------------


def samples_1d(make: Callable) -> Callable:
    def samples() -> Iterator[Sample]:
        yield Sample(make(5))
        yield Sample(make(2, 4), 3)
        yield Sample(make(3, 2), n=5, dim=0, norm="forward")
        yield Sample(make(2, 4), norm="ortho")
        if make is not whole:
            yield Sample(whole(4))
        yield Fails(RuntimeError, make(3), 0)
        yield Fails(RuntimeError, make(3), norm="none")
        yield Fails(IndexError, make(3), dim=1)
        yield Fails(IndexError, np.array(1.0))
        yield Fails(TypeError, "a")

    return samples


def samples_nd(make: Callable, any_rank: bool) -> Callable:
    def samples() -> Iterator[Sample]:
        yield Sample(make(3, 4))
        yield Sample(make(2, 3, 4), (2, 5), dim=(0, 2))
        yield Sample(make(2, 3, 4), s=(-1, 2), dim=(-1, 1), norm="forward")
        if any_rank:
            yield Sample(make(2, 2, 3))
            yield Sample(make(2, 3), s=(4,))
            yield Sample(make(2, 3, 4), dim=1)
            yield Fails(RuntimeError, make(2, 3), s=(2, 2, 2))
        else:
            yield Fails(IndexError, make(3))
        yield Fails(RuntimeError, make(2, 3), dim=(0, -2))
        yield Fails(RuntimeError, make(2, 3), s=(2,), dim=(0, 1))

    return samples


def published(function: Callable, name: str, words: str, samples: Callable) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = words
    composite(samples, spaces=("fft",), out=True)(function)


def family(name: str, transform: Callable, make: Callable, words: str) -> None:
    """The three public functions of a transform: `name`, `name2` and `namen`."""
    base = name

    def over_one(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        check_tensor(base, input)
        dims, lengths = dims_and_lengths(base, input, None, (dim,))
        lengths = [None if n is None else as_index(base, n)]
        return transform(base, input, dims, lengths, check_norm(base, norm))

    def over_dims(op: str, input: Tensor, s: Any, dim: Any, norm: str | None) -> Tensor:
        check_tensor(op, input)
        return transform(op, input, *dims_and_lengths(op, input, s, dim), check_norm(op, norm))

    def over_two(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
        return over_dims(base + "2", input, s, dim, norm)

    def over_any(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
        return over_dims(base + "n", input, s, dim, norm)

    published(over_one, name, f"{words}, along one dimension.", samples_1d(make))
    published(over_two, name + "2", f"{words}, over two dimensions.", samples_nd(make, any_rank=False))
    published(over_any, name + "n", f"{words}, over any dimensions.", samples_nd(make, any_rank=True))


family("fft", whole_spectrum(inverse=False), plane, "The Fourier transform, Σⱼ xⱼ e^(−2πi jk/n)")
family("ifft", whole_spectrum(inverse=True), plane, "The inverse transform, 1/n Σₖ yₖ e^(2πi jk/n)")
family(
    "rfft", half_spectrum(inverse=False), real, "The transform of real numbers, without negative frequencies"
)
family(
    "irfft", from_half_spectrum(inverse=True), plane, "Real numbers from half a spectrum: the inverse of rfft"
)
family("hfft", from_half_spectrum(inverse=False), plane, "The real spectrum of a signal with x₋ₖ = conj(xₖ)")
family(
    "ihfft",
    half_spectrum(inverse=True),
    real,
    "Half a signal whose spectrum is real: the inverse of hfft",
)


# Frequencies and their order -------------------------------------------------------------------------------


def frequencies(name: str, counted: Callable, words: str) -> None:
    """A function (n, d) that counts off frequencies, in units of 1 / (n·d)."""

    def function(
        n: int,
        d: float = 1.0,
        *,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        check_options(name, dtype, device)
        length = as_index(name, n)
        if length < 0:
            raise error(RuntimeError, name, f"n must not be negative, got {n}")
        kind = dtypes.get_default_dtype() if dtype is None else dtype
        if kind.category < dtypes.FLOAT:
            raise error(RuntimeError, name, f"requires a floating point or complex dtype, got {kind}")
        spacing = length * d
        values = counted(length) / spacing if length else np.empty(0)
        return finish(values.astype(kind.numpy), requires_grad, device=device)

    def samples() -> Iterator[Sample]:
        yield Sample(5)
        yield Sample(6, 0.5)
        yield Sample(1, d=2.0, dtype=dtypes.float64)
        yield Fails(RuntimeError, 3, dtype=dtypes.int64)
        yield Fails(TypeError, 2.5)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = words
    composite(samples, spaces=("fft",), out=True, vjp=NO_GRAD)(function)


frequencies(
    "fftfreq",
    lambda n: (np.arange(n) + n // 2) % n - n // 2,
    "The frequencies of fft's entries: zero, the positive ones, then the negative ones, rising.",
)
frequencies("rfftfreq", lambda n: np.arange(n // 2 + 1), "The frequencies of rfft's entries.")


def shift_samples() -> Iterator[Sample]:
    yield Sample(real(5))
    yield Sample(real(3, 4))
    yield Sample(real(3, 4), 1)
    yield Sample(real(2, 3, 4), dim=(0, -1))
    yield Fails(IndexError, real(3), 2)
    yield Fails(TypeError, "a")


@composite(shift_samples, spaces=("fft",))
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The entries of a spectrum with the frequency zero in the middle."""
    return shifted("fftshift", input, dim, lambda size: size // 2)


@composite(shift_samples, spaces=("fft",))
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of fftshift: the frequency zero moves to the front."""
    return shifted("ifftshift", input, dim, lambda size: (size + 1) // 2)


def shifted(op: str, input: Tensor, dim: Any, distance: Callable) -> Tensor:
    check_tensor(op, input)
    dims = wrap_dims(op, dim, input._form.ndim)
    return input.roll([distance(input._form.shape[axis]) for axis in dims], dims)
