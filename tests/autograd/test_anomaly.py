"""Anomaly detection: which forward line made the NaN or the failing backward."""

from __future__ import annotations

import warnings

import pytest

import cleargrad as cg
from tests.oracle import failure, same


def test_modes():
    def run(T):
        seen = [T.is_anomaly_enabled()]
        with T.autograd.detect_anomaly():
            seen += [T.is_anomaly_enabled(), T.is_anomaly_check_nan_enabled()]
            with T.autograd.set_detect_anomaly(True, check_nan=False):
                seen += [T.is_anomaly_enabled(), T.is_anomaly_check_nan_enabled()]
            seen += [T.is_anomaly_check_nan_enabled()]
        T.autograd.set_detect_anomaly(True)
        seen.append(T.is_anomaly_enabled())
        T.autograd.set_detect_anomaly(False)
        return [*seen, T.is_anomaly_enabled()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(run)


def test_a_nan_is_refused():
    def run(T):
        x = T.tensor([0.0, 1.0], requires_grad=True)
        with T.autograd.detect_anomaly():
            refused = failure((x.sqrt() * 0).sum().backward)
            fine = failure((x * 2).sum().backward)
        with T.autograd.detect_anomaly(check_nan=False):
            unchecked = failure((x.sqrt() * 0).sum().backward)
        return refused, fine, unchecked

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert repr(same(run)[0]) == "RuntimeError"


def test_the_error_names_the_forward_line():
    x = cg.tensor([0.0, 1.0], requires_grad=True)
    with cg.autograd.detect_anomaly():
        y = x.sqrt()  # the root of the trouble
        z = (y * 0).sum()
        with pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan values in its 0th output") as caught:
            z.backward()
    text = str(caught.value)
    assert "test_anomaly.py" in text
    assert "the root of the trouble" in text


def test_nodes_that_save_nothing_are_named_as_well():
    class Bad(cg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * float("nan")

    x = cg.ones(2, requires_grad=True)
    with cg.autograd.detect_anomaly():
        y = Bad.apply(x)  # the bad one
        with pytest.raises(RuntimeError, match="BadBackward") as caught:
            y.sum().backward()
    assert "the bad one" in str(caught.value)


def test_a_failing_backward_says_where_it_was_recorded():
    class Fails(cg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("my own words")

    x = cg.ones(2, requires_grad=True)
    with cg.autograd.detect_anomaly():
        y = Fails.apply(x)  # recorded here
        with pytest.raises(ValueError, match="my own words") as caught:
            y.sum().backward()
    assert any("recorded here" in note for note in caught.value.__notes__)


def test_gradients_are_the_same():
    def run(T):
        x = T.tensor([0.5, 1.0], requires_grad=True)
        with T.autograd.detect_anomaly():
            y = (x.exp() * x).sin()
            y[0] = 1.0
            y.sum().backward()
        return x.grad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(run)
