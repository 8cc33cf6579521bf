"""Clipping and parameters as vectors, against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest

import cleargrad as cg
from tests.oracle import failure, same


def with_gradients(T: Any, *scales: float) -> list:
    """Parameters of several shapes; the last has no gradient."""
    params = [
        T.zeros(3, 4, requires_grad=True),
        T.zeros(5, requires_grad=True),
        T.zeros((), requires_grad=True),
    ]
    for p, scale in zip(params, scales, strict=True):
        p.grad = (T.arange(float(p.numel())).reshape(p.shape) - 2) * scale
    return [*params, T.zeros(2, requires_grad=True)]


def grads(params: list) -> list:
    return [p.grad for p in params]


@pytest.mark.parametrize("norm_type", [2.0, 1, 3.5, math.inf, 0, 0.5])
@pytest.mark.parametrize("max_norm", [0.7, 1000.0])
@pytest.mark.parametrize("foreach", [None, True, False])
def test_clip_grad_norm(norm_type: float, max_norm: float, foreach: bool | None) -> None:
    def clip(T: Any) -> list:
        params = with_gradients(T, 1.0, 0.1, 3.0)
        return [T.nn.utils.clip_grad_norm_(params, max_norm, norm_type, foreach=foreach), *grads(params)]

    same(clip)


def test_one_tensor_and_generators() -> None:
    def clip(T: Any) -> list:
        p, q = with_gradients(T, 1.0, 1.0, 1.0)[:2]
        norms = [T.nn.utils.clip_grad_norm_(p, 1.0), T.nn.utils.clip_grad_norm_((x for x in [q]), 1.0)]
        return [*norms, p.grad, q.grad]

    same(clip)


def test_nothing_to_clip() -> None:
    same(lambda T: [T.nn.utils.clip_grad_norm_([], 1.0), T.nn.utils.clip_grad_norm_([T.zeros(2)], 1.0)])
    with pytest.warns(UserWarning, match="empty generator"):
        cg.nn.utils.clip_grad_norm_((p for p in []), 1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_norms_that_are_not_finite(value: float) -> None:
    def clip(T: Any, strict: bool) -> list:
        params = with_gradients(T, 1.0, 1.0, 1.0)
        params[1].grad[0] = value
        return [T.nn.utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=strict), *grads(params)]

    same(lambda T: clip(T, False))
    same(lambda T: failure(lambda: clip(T, True)))
    with pytest.raises(RuntimeError, match=r"gradients +1 \(5,\)"):
        clip(cg, True)


def test_total_norm_apart_from_clipping() -> None:
    def run(T: Any) -> list:
        params = with_gradients(T, 1.0, 2.0, 3.0)
        norm = T.nn.utils.get_total_norm([p.grad for p in params[:3]], 2)
        T.nn.utils.clip_grads_with_norm_(params, 0.5, norm * 2)
        return [norm, T.nn.utils.get_total_norm([]), *grads(params)]

    same(run)


def test_half_precision_and_mixtures() -> None:
    def run(T: Any) -> list:
        p, q = T.zeros(3, dtype=T.float64, requires_grad=True), T.zeros(3, requires_grad=True)
        p.grad, q.grad = T.arange(3.0).double(), T.arange(3.0)
        return [T.nn.utils.clip_grad_norm_([p, q], 1.0), p.grad, q.grad]

    same(run)


def test_clip_grad_value() -> None:
    def clip(T: Any) -> list:
        params = with_gradients(T, 1.0, 0.1, 3.0)
        return [T.nn.utils.clip_grad_value_(params, 1.5), *grads(params)]

    same(clip)


def test_the_old_name_warns() -> None:
    with pytest.warns(FutureWarning, match="deprecated"):
        cg.nn.utils.clip_grad_norm([], 1.0)


def test_parameters_as_a_vector() -> None:
    def run(T: Any) -> list:
        params = with_gradients(T, 1.0, 1.0, 1.0)
        T.nn.utils.vector_to_parameters(T.arange(20.0), params)
        vector = T.nn.utils.parameters_to_vector(params)
        vector.pow(2).sum().backward()
        return [vector, *params, *grads(params)]

    same(run)
    with pytest.raises(TypeError, match=r"expected torch\.Tensor"):
        cg.nn.utils.vector_to_parameters([1.0], [])
