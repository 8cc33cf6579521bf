"""Convolutions and their gradients: sizes go in, a few kernels with their arguments come out.

A gradient in the input is a convolution of the gradient, one for each remainder of positions by the stride, with
the taps that reach it. Arrays are contiguous (samples, channels, *space) with one to three dimensions of space.
Words name the operands "source", "weight", "bias", "gate", "gradient" and "place". How each is computed is chosen
in convolution_blocking.py. Read next: devices/cpu/kernels/pooling.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from cleargrad.devices.cpu.kernels.convolution_blocking import (
    Epilogue,
    Problem,
    WeightBlocking,
    contiguous,
    launches,
)
from cleargrad.devices.cpu.kernels.gemm import ELEMENTS
from cleargrad.devices.cpu.kernels.windows import Axis, TooLarge
from cleargrad.devices.cpu.launch import Launch, Launches

__all__ = [
    "TooLarge",
    "contiguous",
    "deep",
    "forward",
    "input_gradient",
    "phases",
    "three",
    "weight_gradient",
]


def forward(
    source: Sequence[int], weights: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int, kind: Any, threads: int, bias: bool = False, relu: bool = False,
) -> Launches:  # fmt: skip
    """place[n, o, t] = bias[o] + sum of source[n, c, t·stride + k·dilation - padding] · weight[o, c, k]."""
    kernel = tuple(weights[2:])
    size = tuple(source[2:])
    axes = [
        Axis(n, (n + 2 * p - d * (k - 1) - 1) // s + 1, tuple(range(0, d * k, d)), s, p)
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation)
    ]
    if prod(kernel) == 1 and all(axis.step == 1 and axis.before == 0 for axis in axes):
        axes = [Axis(prod(size), prod(size), (0,))]  # a kernel of one tap does not care for rows
    results, channels = weights[0] // groups, weights[1]
    taps = prod(kernel)
    strides = (results * channels * taps, channels * taps, taps)
    problem = Problem(
        source[0], groups, channels, results, three(axes), deep([axis.count for axis in axes]), strides,
        tuple(range(taps)), ELEMENTS[np.dtype(kind).name],
    )  # fmt: skip
    return launches(problem, threads, Epilogue(bias, relu))


def input_gradient(
    source: Sequence[int], weights: Sequence[int], size: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], groups: int, kind: Any, threads: int, bias: bool = False,
    gate: bool = False,
) -> Launches:  # fmt: skip
    """place[n, c, t·stride + k·dilation - padding] = bias[c] + sum of source[n, o, t] · weight[o, c, k]."""
    kernel = tuple(weights[2:])
    taps = prod(kernel)
    results, channels = weights[1], weights[0] // groups
    strides = (results * channels * taps, taps, results * taps)
    chosen = [
        phases(n, count, k, s, p, d)
        for n, count, k, s, p, d in zip(size, source[2:], kernel, stride, padding, dilation)
    ]
    found: list[Launch] = []
    work = 0
    for phase in product(*chosen):
        axes = three([axis for axis, _ in phase])
        places = [
            sum(a * b for a, b in zip(tap, contiguous(kernel))) for tap in product(*(own for _, own in phase))
        ]
        problem = Problem(
            source[0], groups, channels, results, axes, deep(size), strides, tuple(places),
            ELEMENTS[np.dtype(kind).name],
        )  # fmt: skip
        needed = launches(problem, threads, Epilogue(bias, gate=gate), work)
        found += needed.launches
        work += needed.work
    return Launches(found, work)


def weight_gradient(
    gradient: Sequence[int], source: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], groups: int, kind: Any, threads: int,
) -> Launches:  # fmt: skip
    """place[o, c, k] = sum over n and t of gradient[n, o, t] · source[n, c, t·stride + k·dilation - padding]."""
    axes = three([
        Axis(n, t, tuple(range(0, d * k, d)), s, p)
        for n, t, k, s, p, d in zip(source[2:], gradient[2:], kernel, stride, padding, dilation)
    ])  # fmt: skip
    results, channels, taps = gradient[1] // groups, source[1] // groups, prod(kernel)
    problem = Problem(
        source[0], groups, channels, results, axes, deep(gradient[2:]), (0, 0, 0), tuple(range(taps)),
        ELEMENTS[np.dtype(kind).name],
    )  # fmt: skip
    if results == 0 or channels == 0:
        return Launches([], 0)
    return WeightBlocking(problem, threads).launches()


def phases(
    size: int, count: int, kernel: int, stride: int, padding: int, dilation: int
) -> list[tuple[Axis, list[int]]]:
    """For each remainder of position + padding by the stride: the positions that have it, and their taps."""
    found = []
    for rest in range(stride):
        first = -(-(padding - rest) // stride)  # the first t with t·stride + rest - padding inside
        last = (size - 1 + padding - rest) // stride
        if last < first:
            continue
        taps = [k for k in range(kernel) if k * dilation % stride == rest]
        back = [(k * dilation - rest) // stride for k in taps]  # the gradient lies at t - back
        most = max(back, default=0)
        shifts = tuple(most - b for b in back)
        # t = first + u, so that the gradient is read at u + shift - (most - first)
        axis = Axis(count, last - first + 1, shifts, 1, most - first, first * stride + rest - padding, stride)
        found.append((axis, taps))
    return found


def three(axes: Sequence[Axis]) -> tuple[Axis, Axis, Axis]:
    """With dimensions of one position before those that there are."""
    first, second, third = (*(Axis(1, 1, (0,)) for _ in range(3 - len(axes))), *axes)
    return first, second, third


def deep(size: Sequence[int]) -> tuple[int, int, int]:
    first, second, third = (*(1 for _ in range(3 - len(size))), *size)
    return first, second, third
