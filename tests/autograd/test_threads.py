"""Threads: graphs built and walked side by side, each with its own mode."""

from __future__ import annotations

import threading

import numpy as np

import cleargrad as cg


def run_together(*functions):
    """Starts the functions at the same moment and raises what any of them raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(functions))

    def guarded(function):
        try:
            barrier.wait()
            function()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def expected(start: float) -> np.ndarray:
    return 2 * np.array([start, start + 1]) * np.exp(np.array([start, start + 1]) ** 2)


def train(start: float) -> None:
    for _ in range(300):
        x = cg.tensor([start, start + 1], dtype=cg.float64, requires_grad=True)
        (x * x).exp().sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), expected(start))


def look() -> None:
    for _ in range(600):
        with cg.no_grad():
            x = cg.ones(2, requires_grad=True)
            assert not (x * x).requires_grad
            assert not cg.is_grad_enabled()
        assert (x * x).requires_grad


def test_separate_graphs():
    run_together(lambda: train(0.1), lambda: train(0.5))


def test_no_grad_in_one_thread_is_not_seen_in_another():
    run_together(lambda: train(0.1), look, look, lambda: train(0.5))
    x = cg.ones(2, requires_grad=True)
    assert (x * 2).requires_grad


def test_one_leaf_in_two_threads():
    x = cg.ones(2, requires_grad=True)
    parts: list = []

    def use() -> None:
        for _ in range(100):
            parts.append(cg.autograd.grad((x * 3).sum(), x)[0].tolist())

    run_together(use, use)
    assert parts == [[3.0, 3.0]] * 200


def test_anomaly_and_saved_hooks_belong_to_their_thread():
    seen: list = []
    inside, done = threading.Event(), threading.Event()

    def holds() -> None:
        hooks = cg.autograd.graph.saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t)
        with cg.autograd.detect_anomaly(), hooks:
            inside.set()
            done.wait(10)

    def works() -> None:
        inside.wait(10)
        try:
            x = cg.ones(2, requires_grad=True)
            (x.exp() * x).sum().backward()
            assert not cg.autograd.is_anomaly_enabled()
        finally:
            done.set()

    run_together(holds, works)
    assert seen == []


def test_a_graph_walked_in_another_thread():
    x = cg.ones(2, requires_grad=True)
    y = (x * x).sum()
    run_together(lambda: y.backward())
    assert x.grad.tolist() == [2.0, 2.0]


def test_backward_leaves_random_numbers_alone():
    cg.manual_seed(0)
    first = cg.rand(3)
    cg.manual_seed(0)
    x = cg.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    assert cg.rand(3).tolist() == first.tolist()
