"""Dropout: elements, or whole channels, are set to zero at random and the rest is scaled up.

The mask is PyTorch's for the same seed: one draw per element in the order of memory, or one per channel. It
is made by an op of its own, so a recorded program draws a new one in every run. Read next: ops/embedding.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.device import CPU
from cleargrad.core.generator import default_generator
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor, place_of
from cleargrad.devices.cpu.arrays.precision import widen
from cleargrad.errors import error
from cleargrad.ops.creation import FUNCTIONS, zeros
from cleargrad.ops.declare import composite, face, fused
from cleargrad.ops.random import coin_op, memory_order
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor

ALPHA = 1.7580993408473766  # minus the limit of SELU at minus infinity: its scale times its alpha

# What is left ----------------------------------------------------------------------------------------------


def coins(input: Tensor, p: float, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Tensor:
    """Ones with probability 1 − p, else zeros, of the input's dtype and on its device."""
    attrs = {"shape": shape, "dtype": input.dtype, "order": order, "stream": default_generator}
    beside = None if place_of(input) is CPU else input.new_empty(shape)
    return coin_op(beside, parameters=(1 - p,), **attrs)


def kept(input: Tensor, p: float) -> Tensor:
    """One draw for each element."""
    return coins(input, p, input._form.shape, memory_order(input._form))


def kept_channels(input: Tensor, p: float) -> Tensor:
    """One draw for each channel of each sample."""
    shape = input._form.shape
    if len(shape) < 2:
        rule = "Feature dropout requires at least 2 dimensions in the input"
        raise error(RuntimeError, "feature_dropout", rule, input=input)
    return coins(input, p, (*shape[:2], *[1] * (len(shape) - 2)))


def dropped(input: Tensor, p: float, draw: Callable) -> Tensor:
    return input * (draw(input, p) / (1 - p))


def alpha_dropped(input: Tensor, p: float, draw: Callable) -> Tensor:
    """Sets elements to SELU's lowest value instead of zero, then restores mean 0 and variance 1."""
    scale = 1 / math.sqrt((ALPHA * ALPHA * p + 1) * (1 - p))
    mask = draw(input, p)
    shift = (mask + -1) * (ALPHA * scale) + ALPHA * scale * p
    return input * (mask * scale) + shift


# torch.dropout and its kin, (input, p, train) --------------------------------------------------------------


def plain_form(name: str, compute: Callable, draw: Callable, shape: tuple[int, ...]) -> Callable:
    """`name(input, p, train)`, from what is computed and what is drawn; the shape is for samples."""

    def samples() -> Iterator[Sample]:
        for p, train in ((0.4, True), (0.4, False), (0.0, True), (1.0, True)):
            yield Sample(real(*shape), p, train)
        yield Sample(real(0, *shape), 0.4, True)
        yield Fails(RuntimeError, real(*shape), 1.5, True)
        yield Fails(TypeError, 3, 0.5, True)

    def function(input: Tensor, p: float, train: bool) -> Tensor:
        check_tensor(name, input)
        if not 0 <= p <= 1:
            raise error(RuntimeError, name, f"dropout probability has to be between 0 and 1, but got {p}")
        if p == 0 or not train or not input._form.size:
            return input
        return input * zeros((), dtype=input.dtype) if p == 1 else compute(input, p, draw)

    def inplace(input: Tensor, p: float, train: bool) -> Tensor:
        return written(input, function(input, p, train))

    function.__name__ = function.__qualname__ = name
    FUNCTIONS[name + "_"] = inplace
    return composite(samples)(function)


def written(input: Tensor, value: Tensor) -> Tensor:
    """The in-place forms: the value goes into the input, unless nothing was dropped."""
    return input if value is input else input.copy_(value)


dropout_ = plain_form("dropout", dropped, kept, (6,))
alpha_dropout_ = plain_form("alpha_dropout", alpha_dropped, kept, (6,))
feature_dropout_ = plain_form("feature_dropout", dropped, kept_channels, (2, 3, 2))
feature_alpha_dropout_ = plain_form("feature_alpha_dropout", alpha_dropped, kept_channels, (2, 3, 2))


# torch.nn.functional, (input, p, training, inplace) --------------------------------------------------------


def samples_of(*shapes: tuple[int, ...], wrong: tuple[int, ...] | None = None) -> Callable:
    def samples() -> Iterator[Sample]:
        for shape in shapes:
            yield Sample(real(*shape), 0.4, True)
            yield Sample(real(*shape), 0.4, training=False)
        yield Sample(real(*shapes[0]))
        yield Sample(real(*shapes[0]), p=1.0, training=True)
        yield Fails(ValueError, real(*shapes[0]), -0.5)
        yield Fails(ValueError, real(*shapes[0]), p=1.5)
        if wrong is not None:
            yield Fails(RuntimeError, real(*wrong), 0.4, True)

    return samples


def check_probability(op: str, p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise error(ValueError, op, f"dropout probability has to be between 0 and 1, but got {p}")


def functional_form(name: str, plain: Callable, trains: bool, shape: tuple[int, ...]) -> Callable:
    """The form in torch.nn.functional of one of the functions above."""

    def function(input: Tensor, p: float = 0.5, training: bool = trains, inplace: bool = False) -> Tensor:
        check_probability(name, p)
        result = plain(input, p, training)
        return written(input, result) if inplace else result

    function.__name__ = function.__qualname__ = name
    return composite(samples_of(shape), spaces=("nn.functional",))(function)


dropout = functional_form("dropout", dropout_, True, (6,))
alpha_dropout = functional_form("alpha_dropout", alpha_dropout_, False, (6,))
feature_alpha_dropout = functional_form("feature_alpha_dropout", feature_alpha_dropout_, False, (2, 3, 2))


def drop_channels(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    if inplace and (p == 0 or not training):
        return input
    if batched:
        result = feature_dropout_(input, p, training)
    else:
        result = feature_dropout_(input.unsqueeze(0), p, training).squeeze(0)
    return written(input, result) if inplace else result


@composite(samples_of((2, 3, 2), (3, 4), wrong=(3,)), spaces=("nn.functional",))
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drops whole channels of (N, C, L) or (C, L)."""
    check_probability("dropout1d", p)
    check_tensor("dropout1d", input)
    rank = input._form.ndim
    if rank not in (2, 3):
        rule = f"expected 2D (C, L) or 3D (N, C, L) input, but received a {rank}D input"
        raise error(RuntimeError, "dropout1d", rule, input=input, fix="use dropout for other ranks")
    return drop_channels(input, p, training, inplace, batched=rank == 3)


@composite(samples_of((2, 3, 2, 2), (2, 3, 2)), spaces=("nn.functional",))
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drops whole channels of (N, C, H, W); as in PyTorch, three dimensions count as (N, C, L)."""
    check_probability("dropout2d", p)
    check_tensor("dropout2d", input)
    rank = input._form.ndim
    warn_of_rank("dropout2d", rank, (3, 4))
    if rank == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior "
            "is desired: the input is taken as (N, C, L), where C is the channel dim. Use dropout1d.",
            stacklevel=2,
        )
    return drop_channels(input, p, training, inplace, batched=True)


@composite(samples_of((2, 3, 1, 2, 2), (3, 2, 2, 1)), spaces=("nn.functional",))
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drops whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    check_probability("dropout3d", p)
    check_tensor("dropout3d", input)
    rank = input._form.ndim
    warn_of_rank("dropout3d", rank, (4, 5))
    return drop_channels(input, p, training, inplace, batched=rank == 5)


def warn_of_rank(op: str, rank: int, expected: tuple[int, int]) -> None:
    if rank not in expected:
        warnings.warn(
            f"{op}: Received a {rank}-D input to {op}, which is deprecated and will result in an error in a "
            f"future release; it expects {expected[0]} or {expected[1]} dimensions. Use dropout instead.",
            stacklevel=3,
        )


# The mask as a result --------------------------------------------------------------------------------------


def run_native_dropout(x: np.ndarray, *, p: float, train: bool, stream: Any) -> tuple[np.ndarray, np.ndarray]:
    if not train:
        return x.copy(), np.ones(x.shape, np.bool_)
    mask = stream.bernoulli(1 - p, x.shape, np.bool_)
    wide = widen(x)  # narrow floats round once
    return (wide * mask * scale_for(p, wide.dtype.type)).astype(x.dtype, copy=False), mask


def scale_for(p: float, kind: type = float) -> Any:
    return kind(0.0 if p == 1 else 1 / (1 - p))


def native_dropout_parts(x: Tensor, *, p: float, train: bool, stream: Any) -> tuple[Tensor, Tensor]:
    shape = x._form.shape
    if not train:
        return x, x.new_ones((), dtype=dtypes.bool_).expand(shape)
    mask = coin_op(None, parameters=(1 - p,), shape=shape, dtype=dtypes.bool_, order=None, stream=stream)
    return x * mask * scale_for(p), mask


masked = fused(
    "native_dropout",
    native_dropout_parts,
    spec=lambda x, *, p, train, stream: [Spec(x._form.shape, x.dtype), Spec(x._form.shape, dtypes.bool_)],
    run=run_native_dropout,
    vjp=lambda g, out1, *, p, train: g[0] * out1 * (scale_for(p) if train else 1.0),
    samples=lambda: iter(
        [Sample(real(6), 0.4, True), Sample(real(2, 3), 0.4, False), Fails(RuntimeError, real(3), 1.5, True)]
    ),
    outputs=2,
)


@face(masked)
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout, and the mask of what was kept."""
    check_tensor("native_dropout", input)
    return masked(input, p=p, train=train is None or train, stream=default_generator)


@composite(
    lambda: iter([Sample(real(3, 4), np.eye(3, 4, dtype=bool), 2.0), Sample(real(3), np.ones(3, bool), 1.0)]),
    reference=lambda torch: torch.ops.aten.native_dropout_backward,
)
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient of native_dropout, from the mask it returned."""
    return grad_output * mask * scale
