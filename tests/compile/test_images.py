"""Convolution and pooling in compiled programs: native, with relu at the end, and equal to eager."""

from __future__ import annotations

import numpy as np
import pytest

import cleargrad as torch
import cleargrad.nn.functional as F
from cleargrad.devices.cpu.programs.images import Native
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.ops.record import Recorder
from cleargrad.schedule.statements import Host
from tests.bits import same_bits


def both(function, *arrays: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray], Program]:
    """The results of a function, eager and compiled, and its program."""
    expected = [result.detach().numpy() for result in function(*map(torch.tensor, arrays))]
    with Recorder() as recorder:
        graph = recorder.finish(list(function(*(recorder.input(torch.tensor(array)) for array in arrays))))
    graph.input_arrays = list(arrays)
    fresh = [(value, tensor._data.copy()) for value, tensor in graph.outside]
    graph.constants, graph.outside = [*graph.constants, *fresh], []
    program = Program(graph)
    return expected, program.run(list(arrays)), program


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network(x, w1, b1, w2, b2):
    """Two convolutions with relu, pooling, and all gradients."""
    parameters = [w.detach().requires_grad_() for w in (w1, b1, w2, b2)]
    hidden = F.conv2d(x, *parameters[:2], padding=1).relu()
    pooled = F.max_pool2d(F.conv2d(hidden, *parameters[2:]).relu(), 2)
    loss = (pooled * pooled).sum()
    return [loss, *torch.autograd.grad(loss, parameters)]


def test_a_network_and_its_gradients() -> None:
    arrays = [
        numbers(3, 2, 11, 11),
        numbers(16, 2, 3, 3, seed=1),
        numbers(16, seed=2),
        numbers(20, 16, 3, 3, seed=3),
        numbers(20, seed=4),
    ]
    expected, actual, program = both(network, *arrays)
    for one, other in zip(actual, expected, strict=True):
        same_bits(one, other)
    assert sum(isinstance(entry, Native) for entry in program.entries) == 7
    assert not any(isinstance(entry, Host) for entry in program.entries)


def test_relu_is_kept_apart_where_both_values_are_wanted() -> None:
    def function(x, w):
        plain = F.conv2d(x, w)
        return [plain, plain.relu()]

    expected, actual, _ = both(function, numbers(2, 3, 7, 7), numbers(4, 3, 3, 3, seed=1))
    for one, other in zip(actual, expected, strict=True):
        same_bits(one, other)


@pytest.mark.parametrize("transposed", (False, True))
def test_settings(transposed: bool) -> None:
    def function(x, w, b):
        if transposed:
            return [F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1, groups=2)]
        return [F.conv2d(x, w, b, stride=2, padding=2, dilation=2, groups=2)]

    weight = numbers(4, 3, 3, 3, seed=1) if transposed else numbers(6, 2, 3, 3, seed=1)
    expected, actual, _ = both(function, numbers(2, 4, 8, 9), weight, numbers(6, seed=2))
    same_bits(actual[0], expected[0])


def test_columns_of_an_input_that_is_not_contiguous() -> None:
    expected, actual, _ = both(
        lambda x, w: [F.conv2d(x.transpose(2, 3), w)], numbers(2, 3, 7, 8), numbers(4, 3, 3, 3, seed=1)
    )
    same_bits(actual[0], expected[0])
