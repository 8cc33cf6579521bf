"""Every op with its gradient gives the same bits: called, recorded and replayed call by call, and compiled.

The cases are those of the op matrix: what is declared is tested.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.ops.record import CaptureError, Graph, Recorder, replay
from tests.bits import same_bits
from tests.ops.cases import Case, cases, to_ours


def tensors_in(result: object) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return [t for part in result for t in tensors_in(part)] if isinstance(result, (tuple, list)) else []


def results(case: Case, sample: Any, given: Callable, constant: Callable) -> list[Tensor]:
    """What a call gives, and the gradients of its weighted sum where it has some."""

    def made(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            tensor = given(value)
            return tensor.requires_grad_() if tensor.is_floating_point() and case.differentiable else tensor
        return type(value)(map(made, value)) if isinstance(value, (list, tuple)) else value

    arguments = [made(value) for value in sample.args]
    options = {name: made(value) for name, value in sample.kwargs.items()}
    outs = tensors_in(case.function(*arguments, **options))
    leaves = [x for x in tensors_in([*arguments, *options.values()]) if x.requires_grad]
    ends = [out for out in outs if out.requires_grad]
    with_gradient = ends and "ctc_loss_backward" not in case.name  # which has no second one
    weights = [constant(weight(end)) for end in ends]
    grads = cg.autograd.grad(ends, leaves, weights, allow_unused=True) if with_gradient else []
    return [*outs, *(grad for grad in grads if grad is not None)]


def weight(end: Tensor) -> np.ndarray:
    """Uneven weights, so that no gradient vanishes by symmetry."""
    weights = np.cos(np.arange(end.numel()) + 1.0).reshape(tuple(end.shape))
    return weights.astype(end._data.dtype)


def recorded(case: Case, sample: Any, kind: dtypes.dtype) -> tuple[Graph, list[np.ndarray]] | None:
    """The graph of a call and its gradients, and its operands; None if it needs values."""
    arrays: list[np.ndarray] = []
    state = cg.get_rng_state()
    with Recorder() as recorder:

        def symbolic(array: np.ndarray) -> Tensor:
            real = to_ours(array, kind)
            arrays.append(real._data)
            return recorder.input(real)

        try:
            graph = recorder.finish(results(case, sample, symbolic, recorder.constant))
        except CaptureError:
            return None
        finally:
            cg.set_rng_state(state)
    return graph, arrays


def computed(
    case: Case, sample: Any, kind: dtypes.dtype
) -> tuple[list[Tensor], Graph, list[np.ndarray]] | None:
    """What calls give, their graph and its operands; None if there is no graph, or no kernel for the dtype."""
    state = cg.get_rng_state()
    try:
        called = results(case, sample, lambda array: to_ours(array, kind), cg.from_numpy)
        cg.set_rng_state(state)
        found = recorded(case, sample, kind)
    except (RuntimeError, NotImplementedError, KeyError):
        if kind is not dtypes.bfloat16:
            raise
        return None
    finally:
        cg.set_rng_state(state)
    return None if found is None else (called, *found)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [dtypes.float32, dtypes.float64, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("case", cases(), ids=repr)
def test_called_replayed_and_compiled(case: Case, kind: dtypes.dtype) -> None:
    """The first samples are compiled, which takes longest; of other dtypes than float32 there are fewer."""
    state = cg.get_rng_state()
    single = kind is dtypes.float32
    for number, sample in enumerate(case.good()[: None if single else 2]):
        found = computed(case, sample, kind)
        if found is None:
            continue
        called, graph, arrays = found
        runs: dict[str, Callable] = {"replayed": partial(replay, graph)}
        if number < (2 if single else 1):
            program = Program(graph)
            runs |= {"compiled": program.run, "compiled, again": program.run}
        for how, run in runs.items():
            cg.set_rng_state(state)
            for out, wanted in zip(run(arrays), called, strict=True):
                same_bits(out, wanted, f"{case}{sample}, {how}")
        cg.set_rng_state(state)
