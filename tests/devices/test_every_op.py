"""Every sample of every op on two other devices: the same shapes where there are no values, the same bits where
there are, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import cleargrad as cg
from cleargrad.core import dtype as dtypes
from tests.bits import same_bits
from tests.devices.counting import Counting
from tests.ops.cases import Case, cases, tensors_in, to_ours

# What cannot be known without values: shapes that follow from them, and decisions by them.
BY_VALUE = {
    "Tensor.cpu", "Tensor.to", "allclose", "argwhere", "bincount", "equal", "gru", "index_put", "linalg.ldl_factor",
    "lstm", "masked_select", "nn.functional.one_hot", "nonzero", "op:repeat_interleave_places", "op:to_device",
    "repeat_interleave", "rnn_relu", "rnn_tanh", "unique", "unique_consecutive",
}  # fmt: skip
# Kernels of the CPU that lay their results out in an order of their own.
OWN_ORDER = {
    "cholesky", "fill", "frexp", "isreal", "linalg.cholesky", "linalg.cholesky_ex", "masked_scatter",
    "nn.functional.adaptive_avg_pool1d", "nn.functional.relu", "op:adaptive_avg_pool1d", "op:copy",
    "nn.functional.ctc_loss",
    "op:ctc_loss_backward", "op:linalg_cholesky_ex", "op:overwrite", "op:threshold_backward", "op:trigamma", "relu",
    "stft", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes",
}  # fmt: skip
OWN_ORDERS = ("fft.", "op:fft_", "special.")


pytestmark = pytest.mark.filterwarnings("ignore")


def moved(value: Any, place: str) -> Any:
    """A copy of arguments on a device; their tensors are leaves again."""
    if isinstance(value, cg.Tensor):
        return value.detach().to(place).requires_grad_(value.requires_grad)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[moved(item, place) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, place) for item in value)
    return value


def results(case: Case, args: list, kwargs: dict[str, Any]) -> list:
    """What a call gives, and the gradients of all of it."""
    outs = list(tensors_in(case.function(*args, **kwargs)))
    leaves = [x for x in tensors_in([args, list(kwargs.values())]) if x.requires_grad]
    ends = [out for out in outs if out.requires_grad]
    if not ends or not leaves or "ctc_loss_backward" in case.name:  # which has no gradient
        return outs
    ones = [cg.ones_like(end) for end in ends]
    return [*outs, *(x for x in cg.autograd.grad(ends, leaves, ones, allow_unused=True) if x is not None)]


def calls(case: Case, layout: str, place: str) -> Iterator[tuple[list, dict[str, Any], Any, list]]:
    """The samples of a case that have operands, which are on a device, with what they give on the CPU, and the
    state of the random numbers before that."""
    for sample in case.good():
        args = [to_ours(x, dtypes.float32, case.differentiable, layout) for x in sample.args]
        kwargs = {
            name: to_ours(x, dtypes.float32, case.differentiable, layout) for name, x in sample.kwargs.items()
        }
        if not list(tensors_in([args, list(kwargs.values())])):
            continue
        there = moved(args, place), {name: moved(x, place) for name, x in kwargs.items()}
        state = cg.get_rng_state()
        with suppress(RuntimeError):  # not for this layout
            yield *there, state, results(case, args, kwargs)


def layout_of(tensor: Any) -> tuple:
    steps = [step for step, extent in zip(tensor.stride(), tensor.shape) if extent > 1]
    return tuple(tensor.shape), tensor.dtype, steps if tensor.numel() else []


@pytest.mark.parametrize("layout", ["C", "gaps"])
@pytest.mark.parametrize("case", [each for each in cases() if each.name not in BY_VALUE], ids=str)
def test_shapes_without_values(case: Case, layout: str) -> None:
    for args, kwargs, _, expected in calls(case, layout, "meta"):
        found = results(case, args, kwargs)
        assert all(x.is_meta for x in found)
        cut = 2 if case.name in OWN_ORDER or case.name.startswith(OWN_ORDERS) else 3
        assert [layout_of(x)[:cut] for x in found] == [layout_of(x)[:cut] for x in expected]


@pytest.mark.parametrize("case", [each for each in cases() if each.name in BY_VALUE], ids=str)
def test_what_needs_values_says_so(case: Case) -> None:
    errors = []
    for args, kwargs, _, _ in calls(case, "C", "meta"):
        try:
            results(case, args, kwargs)
        except (RuntimeError, IndexError) as failure:
            errors.append(failure)
    assert errors


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_same_bits_on_another_device(case: Case, counting: Counting) -> None:
    for args, kwargs, state, expected in calls(case, "C", "counting"):
        after = cg.get_rng_state()
        cg.set_rng_state(state)
        found = results(case, args, kwargs)
        assert cg.get_rng_state().tolist() == after.tolist()
        assert len(found) == len(expected)
        for ours, cpu in zip(found, expected):
            same_bits(ours.cpu(), cpu)
