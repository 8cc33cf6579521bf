"""The op matrix: every declared op against every promise, generated from the declarations.

Columns: value, dtypes, gradient, second gradient, replay (recorded = eager, and its specs), gaps
(non-contiguous inputs), in-place, out, failing samples. Empty and broadcast operands come with the samples.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from cleargrad.core import dtype as dtypes
from cleargrad.core.generator import default_generator
from cleargrad.ops.record import CaptureError, Recorder, replay
from cleargrad.ops.samples import Conventional
from tests.ops.cases import Case, call, cases, close, numbers, same, tensors_in, to_ours, to_torch

CASES = cases()


def for_cases(keep: Any) -> Any:
    return pytest.mark.parametrize("case", [case for case in CASES if keep(case)], ids=repr)


every_case = for_cases(lambda case: True)
# The cases without a reference are internal: adjoint kernels, say.
with_reference = for_cases(lambda case: case.reference is not None)
with_gradient = for_cases(lambda case: case.differentiable)
with_inplace = for_cases(lambda case: case.inplace is not None)
pytestmark = pytest.mark.filterwarnings("ignore")


def seed() -> None:
    """Random ops draw the same numbers in both libraries."""
    torch.manual_seed(7)
    default_generator.manual_seed(7)


def run_ours(case: Case, sample: Any, **options: Any) -> tuple[Any, list]:
    seed()
    return call(case.function, sample, to_ours, **options)


def run_torch(case: Case, sample: Any, **options: Any) -> tuple[Any, list]:
    seed()
    return call(case.reference, sample, to_torch, **options)


def is_float(tensor: Any) -> bool:
    return tensor.is_floating_point()


@every_case
def test_samples_exist(case: Case) -> None:
    assert case.good(), f"{case} declares no sample that works"


@with_reference
def test_value(case: Case) -> None:
    """Values, shapes and dtypes are PyTorch's."""
    for kind in (dtypes.float64, dtypes.float32):
        for sample in case.good():
            same(
                run_ours(case, sample, kind=kind)[0], run_torch(case, sample, kind=kind)[0], f"{case}{sample}"
            )


@with_reference
@pytest.mark.parametrize(
    "kind", [dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.uint8, dtypes.bool_], ids=str
)
def test_dtypes(case: Case, kind: dtypes.dtype) -> None:
    """Where PyTorch takes a dtype, so do we, with its result."""
    for sample in case.good():
        try:
            theirs = run_torch(case, sample, kind=kind)[0]
        except Exception:
            continue
        same(run_ours(case, sample, kind=kind)[0], theirs, f"{case}{sample} {kind}", loose=2.0)


@every_case
def test_gaps(case: Case) -> None:
    """Non-contiguous inputs give the same values."""
    for sample in case.good():
        plain, _ = run_ours(case, sample, kind=dtypes.float64)
        try:
            gaps, _ = run_ours(case, sample, kind=dtypes.float64, layout="gaps")
        except RuntimeError as failure:
            assert "stride" in str(failure) or "storage" in str(failure), failure
            continue
        if "strided" in case.name:
            continue  # they read memory, whose layout is what changed
        for a, b in zip(tensors_in(plain), tensors_in(gaps), strict=True):
            close(numbers(a), numbers(b), a.dtype.name, f"{case}{sample} with gaps")


# Gradients -------------------------------------------------------------------------------------------------


def scalar(outputs: Any, weights: list) -> Any:
    """A weighted sum of all float outputs: one number whose gradient touches everything."""
    total = None
    for out, weight in zip((t for t in tensors_in(outputs) if is_float(t)), weights, strict=True):
        term = (out * cg.from_numpy(weight)).sum()
        total = term if total is None else total + term
    return total


def weights_for(outputs: Any, offset: int) -> list:
    generator = np.random.default_rng(offset)
    return [generator.uniform(0.5, 1.5, tuple(t.shape)) for t in tensors_in(outputs) if is_float(t)]


def moved(sample: Any, directions: list, step: float) -> Any:
    """The sample with every float array moved along its direction."""
    queue = iter(directions)

    def move(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            return np.asarray(value + step * next(queue))
        if isinstance(value, (list, tuple)):
            return type(value)(map(move, value))
        return value

    copy = type(sample).__new__(type(sample))
    copy.args = tuple(move(value) for value in sample.args)
    copy.kwargs = {name: move(value) for name, value in sample.kwargs.items()}
    return copy


def directions_for(inputs: list) -> list:
    """A direction for every float input; symmetric and triangular matrices stay so, as their ops assume."""
    generator = np.random.default_rng(3)
    directions = []
    for tensor in filter(is_float, inputs):
        direction, x = generator.uniform(-1, 1, tuple(tensor.shape)), numbers(tensor)
        if x.ndim >= 2 and x.shape[-1] == x.shape[-2] and np.array_equal(x, x.swapaxes(-1, -2)):
            direction = direction + direction.swapaxes(-1, -2)
        for triangle in (np.tril, np.triu):
            if x.ndim >= 2 and np.array_equal(x, triangle(x)):
                direction = triangle(direction)
        directions.append(direction)
    return directions


def first_derivative(
    case: Case, sample: Any, weights: list, directions: list, create_graph: bool = False
) -> Any:
    """The directional derivative of the weighted sum, by backward; None when nothing is differentiable."""
    outputs, inputs = run_ours(case, sample, kind=dtypes.float64, grad=True)
    total = scalar(outputs, weights)
    if total is None or not total.requires_grad:
        return None
    leaves = [t for t in inputs if is_float(t)]
    grads = cg.autograd.grad(total, leaves, create_graph=create_graph, allow_unused=True)
    result = None
    for grad, direction in zip(grads, directions, strict=True):
        if grad is not None:
            assert tuple(grad.shape) == direction.shape
            term = (grad * cg.from_numpy(direction)).sum()
            result = term if result is None else result + term
    return result, leaves


def numeric(function: Any, step: float) -> float:
    return (function(step) - function(-step)) / (2 * step)


def differentiable_samples(case: Case) -> list:
    return [sample for sample in case.good() if not isinstance(sample, Conventional)]


@with_reference
def test_conventional_gradient(case: Case) -> None:
    """Where PyTorch's gradient is a convention, ours is the same convention."""
    for sample in case.good():
        if not isinstance(sample, Conventional) or case.reference is None:
            continue
        grads = []
        for run in (run_ours, run_torch):
            out, inputs = run(case, sample, kind=dtypes.float64, grad=True)
            sum(part.sum() for part in tensors_in(out) if is_float(part)).backward()
            grads.append([t.grad for t in inputs if t.requires_grad])
        same(grads[0], grads[1], f"{case}{sample} gradient")


@with_gradient
def test_gradient(case: Case) -> None:
    """The vjp agrees with differences of values, in float64."""
    for sample in differentiable_samples(case):
        outputs, inputs = run_ours(case, sample, kind=dtypes.float64)
        weights, directions = weights_for(outputs, 1), directions_for(inputs)
        found = first_derivative(case, sample, weights, directions)
        if found is None or found[0] is None:
            continue

        def value(step: float) -> float:
            moved_outputs, _ = run_ours(case, moved(sample, directions, step), kind=dtypes.float64)  # noqa: B023
            return scalar(moved_outputs, weights).item()  # noqa: B023

        expected, actual = numeric(value, 1e-6), found[0].item()
        assert actual == pytest.approx(expected, rel=2e-5, abs=2e-6), f"{case}{sample}"


@with_gradient
def test_second_gradient(case: Case) -> None:
    """The gradient of the gradient agrees with differences of gradients."""
    for sample in differentiable_samples(case):
        outputs, inputs = run_ours(case, sample, kind=dtypes.float64)
        weights, directions = weights_for(outputs, 1), directions_for(inputs)
        found = first_derivative(case, sample, weights, directions, create_graph=True)
        if found is None or found[0] is None:
            continue
        first, leaves = found
        actual = 0.0
        if first.requires_grad:
            for grad, direction in zip(
                cg.autograd.grad(first, leaves, allow_unused=True), directions, strict=True
            ):
                actual += 0.0 if grad is None else float((numbers(grad) * direction).sum())

        def slope(step: float) -> float:
            return first_derivative(case, moved(sample, directions, step), weights, directions)[0].item()  # noqa: B023

        assert actual == pytest.approx(numeric(slope, 1e-6), rel=1e-4, abs=2e-5), f"{case}{sample}"


# Other readings --------------------------------------------------------------------------------------------


@every_case
def test_replay(case: Case) -> None:
    """A recorded call, replayed, gives the eager values; its specs are the eager shapes and dtypes."""
    for sample in case.good():
        eager, _ = run_ours(case, sample, kind=dtypes.float32)
        arrays: list[np.ndarray] = []
        with Recorder() as recorder:

            def symbolic(value: Any, **options: Any) -> Any:
                if isinstance(value, np.ndarray):
                    tensor = to_ours(value, dtypes.float32)
                    arrays.append(tensor._data)  # noqa: B023
                    return recorder.input(tensor)
                if isinstance(value, (list, tuple)):
                    return type(value)(symbolic(item) for item in value)
                return value

            try:
                outputs, _ = call(case.function, sample, symbolic)
            except CaptureError:
                continue  # it needs values; the error says so
            results = list(tensors_in(outputs))
            graph = recorder.finish(results)
        seed()
        replayed = replay(graph, arrays)
        for out, again, value in zip(tensors_in(eager), replayed, graph.outputs, strict=True):
            assert value.spec.shape == tuple(out.shape) == again.shape, f"{case}{sample}: spec {value.spec}"
            assert value.spec.dtype is out.dtype, f"{case}{sample}: spec {value.spec}, eager {out.dtype}"
            again = again.astype(np.float32) if out.dtype is cg.bfloat16 else again
            close(numbers(out), again, out.dtype.name, f"{case}{sample} replayed")


@with_inplace
def test_inplace(case: Case) -> None:
    """`x.name_(...)` leaves in x, and in its gradient, what the out-of-place form gives."""
    for sample in case.good():
        if not isinstance(sample.args[0], np.ndarray):
            continue
        expected, inputs = run_ours(case, sample, kind=dtypes.float64, grad=True)
        args = [to_ours(value, dtypes.float64, True) for value in sample.args]
        kwargs = {name: to_ours(value, dtypes.float64, True) for name, value in sample.kwargs.items()}
        target = args[0] * 1
        before = target.detach().clone()
        seed()
        try:
            result = case.inplace(target, *args[1:], **kwargs)
        except RuntimeError:
            # The result does not fit into the target; then the target must be as it was.
            assert tuple(expected.shape) != tuple(target.shape) or expected.dtype is not target.dtype
            close(numbers(target), numbers(before), "float64", f"{case}{sample} failed in place")
            continue
        assert result is target
        if not expected.is_complex():
            expected = expected.double()
        close(numbers(target), numbers(expected), "float64", f"{case}{sample} in place")
        if expected.requires_grad:
            expected.sum().backward()
            target.sum().backward()
            for a, b in zip(inputs, tensors_in([args, list(kwargs.values())]), strict=True):
                if a.requires_grad and a.grad is not None:
                    close(numbers(b.grad), numbers(a.grad), "float64", f"{case}{sample} gradient in place")


@every_case
def test_failing(case: Case) -> None:
    """Bad input raises the type PyTorch raises, in our layout."""
    for sample in case.bad():
        with pytest.raises(sample.kind) as ours:
            call(case.function, sample, to_ours)
        assert str(ours.value).strip(), f"{case}{sample}: an empty message"
        if case.reference is not None:
            with pytest.raises(sample.kind), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(case.reference, sample, to_torch)
