"""Every op, recorded with its gradient and compiled, gives the bits of its calls one by one.

The cases are those of the op matrix: what is declared is tested.
"""

from __future__ import annotations

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.compile.program import Program
from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.ops.record import CaptureError, Graph, Recorder, replay
from tests.bits import same_bits
from tests.ops.cases import Case, cases, to_ours


def tensors_in(result: object) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return [t for part in result for t in tensors_in(part)] if isinstance(result, (tuple, list)) else []


def recorded(case: Case, sample) -> tuple[Graph, list[np.ndarray]] | None:
    """The graph of a call, and of the gradients of its sum where it has some."""
    arrays: list[np.ndarray] = []

    def symbolic(value: object, recorder: Recorder) -> object:
        if isinstance(value, np.ndarray):
            real = to_ours(value, dtypes.float32)
            arrays.append(real._data)
            tensor = recorder.input(real)
            return tensor.requires_grad_() if tensor.is_floating_point() and case.differentiable else tensor
        if isinstance(value, (list, tuple)):
            return type(value)(symbolic(part, recorder) for part in value)
        return value

    with Recorder() as recorder:
        arguments = [symbolic(value, recorder) for value in sample.args]
        options = {name: symbolic(value, recorder) for name, value in sample.kwargs.items()}
        state = cg.get_rng_state()
        try:
            outs = tensors_in(case.function(*arguments, **options))
            leaves = [x for x in tensors_in([*arguments, *options.values()]) if x.requires_grad]
            ends = [out for out in outs if out.requires_grad]
            weights = [recorder.constant(weight(end)) for end in ends]
            with_gradient = ends and "ctc_loss_backward" not in case.name  # which has no second one
            grads = cg.autograd.grad(ends, leaves, weights, allow_unused=True) if with_gradient else []
        except CaptureError:
            return None
        finally:
            cg.set_rng_state(state)
        graph = recorder.finish([*outs, *(grad for grad in grads if grad is not None)])
    return graph, arrays


def weight(end: Tensor) -> np.ndarray:
    """Uneven weights, so that no gradient vanishes by symmetry."""
    weights = np.cos(np.arange(end.numel()) + 1.0).reshape(tuple(end.shape))
    return weights.astype(end._data.dtype)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", cases(), ids=repr)
def test_compiled_as_replayed(case: Case) -> None:
    for sample in case.good()[:2]:
        found = recorded(case, sample)
        if found is None:
            continue
        graph, arrays = found
        state = cg.get_rng_state()
        expected = replay(graph, arrays)
        cg.set_rng_state(state)
        program = Program(graph)
        for _ in range(2):
            cg.set_rng_state(state)
            for out, wanted in zip(program.run(arrays), expected, strict=True):
                same_bits(out, wanted)
        cg.set_rng_state(state)
