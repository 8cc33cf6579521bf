"""no_grad, enable_grad, set_grad_enabled and inference_mode, as blocks, decorators and functions."""

from __future__ import annotations

import threading

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

LIBRARIES = pytest.mark.parametrize("T", (cg, torch), ids=("cleargrad", "torch"))


def test_blocks():
    def run(T):
        x = T.ones(2, requires_grad=True)
        seen = [(x * 2).requires_grad]
        with T.no_grad():
            seen += [T.is_grad_enabled(), (x * 2).requires_grad, T.ones(2, requires_grad=True).requires_grad]
            with T.enable_grad():
                seen += [T.is_grad_enabled(), (x * 2).requires_grad]
                with T.set_grad_enabled(False):
                    seen += [T.is_grad_enabled(), (x * 2).requires_grad]
                seen += [T.is_grad_enabled()]
            seen += [T.is_grad_enabled()]
        return [*seen, T.is_grad_enabled(), (x * 2).requires_grad]

    same(run)


def test_set_grad_enabled_as_a_function():
    def run(T):
        x = T.ones(2, requires_grad=True)
        T.set_grad_enabled(False)
        off = T.is_grad_enabled(), (x * 2).requires_grad
        T.set_grad_enabled(True)
        return off, T.is_grad_enabled(), (x * 2).requires_grad

    same(run)


def test_exceptions_restore_the_mode():
    def run(T):
        seen = []
        for mode in (T.no_grad(), T.enable_grad(), T.set_grad_enabled(False), T.inference_mode()):
            try:
                with mode:
                    raise KeyError
            except KeyError:
                seen.append((T.is_grad_enabled(), T.is_inference_mode_enabled()))
        return seen

    same(run)


def test_decorators():
    def run(T):
        @T.no_grad()
        def without(x):
            """Says what it does."""
            return T.is_grad_enabled(), (x * 2).requires_grad

        @T.no_grad
        def bare(x):
            return T.is_grad_enabled()

        @T.enable_grad()
        def within(x):
            return T.is_grad_enabled()

        @T.set_grad_enabled(False)
        def switched(x):
            return T.is_grad_enabled()

        @T.inference_mode()
        def inferring(x):
            return T.is_grad_enabled(), T.is_inference_mode_enabled(), (x * 2).is_inference()

        class Model:
            @T.no_grad()
            def predict(self, x):
                return (x * 2).requires_grad

        x = T.ones(2, requires_grad=True)
        after_definition = T.is_grad_enabled()
        results = [f(x) for f in (without, bare, within, switched, inferring, Model().predict)]
        with T.no_grad():
            inside = within(x), T.is_grad_enabled()
        return after_definition, results, inside, without.__name__, without.__doc__, T.is_grad_enabled()

    same(run)


def test_recursive_decorated_functions():
    def run(T):
        @T.no_grad()
        def down(n):
            if n:
                with T.enable_grad():
                    down(n - 1)
            return T.is_grad_enabled()

        return down(3), T.is_grad_enabled()

    same(run)


def test_generator_functions():
    def run(T):
        seen = []

        @T.no_grad()
        def numbers():
            try:
                seen.append(T.is_grad_enabled())
                got = yield 1
                seen.append((got, T.is_grad_enabled()))
                try:
                    yield 2
                except ValueError:
                    seen.append(("caught", T.is_grad_enabled()))
                yield 3
            finally:
                seen.append(("closed", T.is_grad_enabled()))
            return 4

        generator = numbers()
        seen.append(next(generator))
        seen.append(T.is_grad_enabled())
        seen.append(generator.send("sent"))
        seen.append(generator.throw(ValueError()))
        seen.append(T.is_grad_enabled())
        seen.append(failure(lambda: next(generator)))
        early = numbers()
        next(early)
        early.close()
        seen.append(T.is_grad_enabled())
        return seen

    same(run)


def test_modes_belong_to_their_thread():
    def run(T):
        seen = []

        def other():
            seen.append(T.is_grad_enabled())
            with T.no_grad():
                inside.set()
                release.wait()
            seen.append(T.is_grad_enabled())

        inside, release = threading.Event(), threading.Event()
        with T.no_grad():
            thread = threading.Thread(target=other)
            thread.start()
            inside.wait()
        here = T.is_grad_enabled(), (T.ones(1, requires_grad=True) * 2).requires_grad
        release.set()
        thread.join()
        return seen, here

    same(run)


def test_a_thread_that_ends_inside_no_grad_does_not_matter():
    def end_inside():
        cg.no_grad().__enter__()

    for _ in range(3):
        thread = threading.Thread(target=end_inside)
        thread.start()
        thread.join()
    x = cg.ones(2, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with cg.no_grad():
        assert not (x * 2).requires_grad


def test_what_is_made_in_inference_mode():
    def run(T):
        normal = T.ones(3)
        weight = T.ones(3, requires_grad=True)
        with T.inference_mode():
            fresh = T.ones(3)
            product = normal * weight
            view, normal_view = product[1:], normal[1:]
            inside = [t.is_inference() for t in (fresh, product, view, normal_view, normal.detach())]
            inside += [T.is_grad_enabled(), T.is_inference_mode_enabled(), product.requires_grad]
            product.add_(1)
            normal_view.add_(1)
            with T.enable_grad():
                inside.append((weight * 2).requires_grad)
            with T.inference_mode(False):
                inside += [T.is_grad_enabled(), T.ones(1).is_inference(), (weight * 2).requires_grad]
        outside = [t.is_inference() for t in (product * 2, product.clone(), product[0], product.detach())]
        return inside, outside, normal, product, T.is_grad_enabled(), T.is_inference_mode_enabled()

    same(run)


def test_inference_tensors_refuse_autograd():
    def run(T):
        weight = T.ones(3, requires_grad=True)
        with T.inference_mode():
            x = T.ones(3) * 2

        def without_recording():
            with T.no_grad():
                x.add_(1)

        return [
            failure(call)
            for call in (
                lambda: (x * weight).sum().backward(),
                lambda: (weight * x[:]).sum().backward(),
                lambda: (x.reshape(1, 3) @ weight.reshape(3, 1)).sum().backward(),
                lambda: x.add_(1),
                lambda: x[0].zero_(),
                without_recording,
                lambda: x.requires_grad_(),
                lambda: x._version,
                lambda: (x + weight).requires_grad,
                lambda: (x.clone() * weight).requires_grad,
                lambda: (x * 2).requires_grad_().requires_grad,
            )
        ]

    outcome = same(run)
    assert [repr(each) for each in outcome[:8]] == ["RuntimeError"] * 8
    assert outcome[8:] == [True, True, True]


def test_the_error_of_a_saved_inference_tensor():
    weight = cg.ones(3, requires_grad=True)
    with cg.inference_mode():
        x = cg.ones(3)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward") as caught:
        (x * weight).sum().backward()
    assert "test_modes.py" in str(caught.value)


@LIBRARIES
def test_top_level_questions(T):
    x = T.ones(2, requires_grad=True)
    assert T.is_grad_enabled() and not T.is_inference_mode_enabled()
    assert not T.is_inference(x)
    assert not T.is_anomaly_enabled()
    with T.autograd.set_grad_enabled(False), T.autograd.no_grad(), T.autograd.enable_grad():
        assert T.is_grad_enabled()
    with T.autograd.grad_mode.no_grad():
        assert not T.is_grad_enabled()
