"""gradcheck and gradgradcheck: right gradients pass, wrong ones are found."""

from __future__ import annotations

import warnings

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

LIBRARIES = pytest.mark.parametrize("T", (cg, torch), ids=("cleargrad", "torch"))


def leaf(T, *values):
    return T.tensor(values, dtype=T.float64, requires_grad=True)


def scaled(T, factor):
    """The cube, with a gradient that is right for `factor` 3 only."""

    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return grad * factor * ctx.saved_tensors[0] ** 2

    return Cube.apply


def test_right_and_wrong_gradients():
    def run(T):
        x = leaf(T, 0.5, -1.5)
        check = T.autograd.gradcheck
        return (
            check(scaled(T, 3), (x,)),
            check(scaled(T, 2), (x,), raise_exception=False),
            failure(lambda: check(scaled(T, 2), (x,))),
            check(lambda a: a.exp() * 2, x),
            check(lambda a, b: (a * b, a.sum()), (x, leaf(T, 1.0, 2.0))),
            check(lambda a, n: a**n, (x, 3)),
            x,
        )

    same(run)


@LIBRARIES
def test_the_error_is_a_gradcheck_error(T):
    with pytest.raises(T.autograd.gradcheck.__globals__["GradcheckError"], match="Jacobian mismatch"):
        T.autograd.gradcheck(scaled(T, 2), (leaf(T, 0.5),))


def test_second_gradients():
    def run(T):
        class HalfRight(T.autograd.Function):
            """The gradient is right, the gradient of the gradient is not."""

            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return grad * 3 * x.detach() ** 2

        x = leaf(T, 0.5, -1.5)
        check = T.autograd.gradgradcheck
        return (
            check(scaled(T, 3), (x,)),
            T.autograd.gradcheck(HalfRight.apply, (x,)),
            check(HalfRight.apply, (x,), raise_exception=False),
            failure(lambda: check(HalfRight.apply, (x,))),
            check(lambda a, b: (a * b).sin(), (x, leaf(T, 1.0, 2.0))),
            check(lambda a: a.exp(), (x,), (leaf(T, 1.0, 2.0),)),
        )

    same(run)


def test_complex_numbers():
    def run(T):
        z = T.tensor([1 + 2j, 0.5 - 1j], dtype=T.complex128, requires_grad=True)
        x = leaf(T, 0.5, -1.5)
        check = T.autograd.gradcheck
        return (
            check(lambda a: a * a, z),
            check(lambda a: a.abs(), z),
            check(lambda a, b: a * b, (z, x)),
            check(lambda a: T.view_as_complex(a.reshape(1, 2)), x),
            check(lambda a: a * a.conj().detach(), z, raise_exception=False),
        )

    same(run)


def test_refusals():
    def run(T):
        x = leaf(T, 0.5)
        return (
            failure(lambda: T.autograd.gradcheck(lambda a: a * 2, (T.ones(2, dtype=T.float64),))),
            failure(lambda: T.autograd.gradcheck(lambda a: a.detach(), (x,), raise_exception=False)),
        )

    same(run)


@LIBRARIES
def test_single_precision_warns(T):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        T.autograd.gradcheck(lambda a: a * 2, (T.ones(2, requires_grad=True),), eps=1e-2, atol=1e-2)
    assert any("double precision" in str(each.message) for each in caught)


def test_gradients_that_differ_between_calls_are_found():
    def run(T):
        count = iter(range(100))

        class Wavering(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * (2 + 1e-9 * next(count))

        x = leaf(T, 0.5)
        return (
            failure(lambda: T.autograd.gradcheck(Wavering.apply, (x,))),
            T.autograd.gradcheck(Wavering.apply, (x,), nondet_tol=1e-4),
        )

    same(run)


def test_views_and_in_place_writes():
    def write(T):
        def function(x, w):
            y = x * 2
            y[0] = w.sum()
            y[1:].mul_(w[1:])
            return y

        return function

    def run(T):
        x, w = leaf(T, 0.5, -1.5, 2.0), leaf(T, 1.0, 2.0, 3.0)
        return T.autograd.gradcheck(write(T), (x, w)), T.autograd.gradgradcheck(write(T), (x, w))

    same(run)
