"""torch.autograd.functional: Jacobians, Hessians and their products with vectors."""

from __future__ import annotations

import pytest

from tests.oracle import failure, same


def double(T, *values):
    return T.tensor(values, dtype=T.float64)


def one_to_one(T):
    return lambda x: (x.sin() * x.sum()).reshape(-1, 1)


def two_to_two(T):
    return lambda x, y: ((x * y).sum(), x.exp() + y[:2].prod())


def test_jacobian():
    def run(T):
        x, y = double(T, 0.1, 0.2), double(T, 0.3, 0.4)
        matrix = T.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=T.float64)
        functional = T.autograd.functional
        return (
            functional.jacobian(one_to_one(T), x),
            functional.jacobian(two_to_two(T), (x, y)),
            functional.jacobian(lambda a: a @ a, matrix),
            functional.jacobian(lambda a: a.sum(), matrix),
            functional.jacobian(lambda a: (a[0], a[1]), x),
            functional.jacobian(lambda a: T.ones(2, dtype=T.float64), x),
            functional.jacobian(one_to_one(T), x, vectorize=True),
        )

    same(run)


def test_hessian():
    def run(T):
        x, y = double(T, 0.1, 0.2), double(T, 0.3, 0.4)
        functional = T.autograd.functional
        return (
            functional.hessian(lambda a: (a**3).sum() + a.prod(), x),
            functional.hessian(lambda a, b: (a * b).sum().exp(), (x, y)),
            functional.hessian(lambda a: a.sum(), x),
            functional.hessian(lambda a: (a.exp()).sum().reshape(1), x),
        )

    same(run)


def test_products():
    def run(T):
        x, y = double(T, 0.1, 0.2), double(T, 0.3, 0.4)
        v, w = double(T, 1.0, -1.0), double(T, 0.5, 2.0)
        functional = T.autograd.functional
        return (
            functional.vjp(one_to_one(T), x, v.reshape(2, 1)),
            functional.vjp(two_to_two(T), (x, y), (T.tensor(2.0, dtype=T.float64), v)),
            functional.vjp(lambda a: a.sum(), x),
            functional.jvp(one_to_one(T), x, v),
            functional.jvp(two_to_two(T), (x, y), (v, w)),
            functional.jvp(lambda a: a.exp(), double(T, 0.5)),
            functional.vhp(lambda a: (a**3).sum() + a.prod(), x, v),
            functional.hvp(lambda a: (a**3).sum() + a.prod(), x, v),
            functional.vhp(lambda a, b: (a * b).sum().exp(), (x, y), (v, w)),
            functional.hvp(lambda a, b: (a * b).sum().exp(), (x, y), (v, w)),
            functional.hvp(lambda a: a.sum(), x, v),
            functional.vhp(lambda a: a.sum(), x, v),
        )

    same(run)


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
def test_create_graph(name):
    def run(T):
        x = double(T, 0.1, 0.2).requires_grad_()
        v = double(T, 1.0, -1.0)
        function = getattr(T.autograd.functional, name)

        def cubes(a):
            return (a**3).sum()

        if name in ("jacobian", "hessian"):
            result = function(cubes, x, create_graph=True)
        else:
            result = function(cubes, x, None if name == "vjp" else v, create_graph=True)[1]
        plain = function(cubes, x) if name in ("jacobian", "hessian", "vjp") else None
        (grad,) = T.autograd.grad(result.sum(), x)
        return result, grad, plain, x.grad

    same(run)


def test_strict():
    def run(T):
        x, y = double(T, 0.1, 0.2), double(T, 0.3, 0.4)
        v = double(T, 1.0, 1.0)
        functional = T.autograd.functional

        def first_only(a, b):
            return (a * a).sum()

        def constant(a):
            return T.ones(2, dtype=T.float64)

        def linear(a):
            return a.sum()

        return [
            failure(call)
            for call in (
                lambda: functional.jacobian(first_only, (x, y), strict=True),
                lambda: functional.jacobian(constant, x, strict=True),
                lambda: functional.jacobian(lambda a: a * 2, x, strict=True),
                lambda: functional.hessian(linear, x, strict=True),
                lambda: functional.vjp(constant, x, v, strict=True),
                lambda: functional.jvp(constant, x, v, strict=True),
                lambda: functional.jvp(lambda a, b: a * 2, (x, y), (v, v), strict=True),
                lambda: functional.vhp(linear, x, v, strict=True),
                lambda: functional.hvp(linear, x, v, strict=True),
                lambda: functional.vjp(constant, x, v),
                lambda: functional.jvp(constant, x, v),
            )
        ]

    same(run)


def test_refusals():
    def run(T):
        x = double(T, 0.1, 0.2)
        functional = T.autograd.functional
        return [
            failure(call)
            for call in (
                lambda: functional.vjp(lambda a: a * 2, x),
                lambda: functional.vjp(lambda a: a * 2, x, T.ones(3, dtype=T.float64)),
                lambda: functional.vjp(lambda a: a * 2, x, (x, x)),
                lambda: functional.jvp(lambda a: a * 2, x),
                lambda: functional.hessian(lambda a: a * 2, x),
                lambda: functional.jacobian(lambda a: 1.0, x),
                lambda: functional.jacobian(lambda a: a, 1.0),
                lambda: functional.jacobian(lambda a: a, [1.0]),
                lambda: functional.vhp(lambda a: a * 2, x, x),
                lambda: functional.hvp(lambda a: (a.sum(), a.sum()), x, x),
            )
        ]

    outcome = same(run)
    assert all("Error" in repr(each) for each in outcome)


def test_inputs_and_their_gradients_are_left_alone():
    def run(T):
        x = double(T, 0.1, 0.2).requires_grad_()
        T.autograd.functional.jacobian(lambda a: a**2, x)
        T.autograd.functional.hessian(lambda a: (a**2).sum(), x)
        with T.no_grad():
            inside = T.autograd.functional.jacobian(lambda a: a**2, x)
        return x.grad, inside, x.is_leaf

    same(run)
