"""What the op matrix cannot see of elementwise ops: odd numbers, corners of gradients, operators."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
import torch

import cleargrad as cg

BOTH = (torch, cg)
ODD = [1.0, math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, 1.5, -2.5]


def both(function):
    """The values of the same program under PyTorch and under us."""
    results = []
    for library in BOTH:
        result = function(library)
        results.append(result.tolist() if isinstance(result, library.Tensor) else result)
    return results


@pytest.mark.parametrize(
    "name", ["nan_to_num", "round", "sign", "sgn", "floor", "isposinf", "relu", "sigmoid", "signbit"]
)
def test_odd_numbers(name: str) -> None:
    theirs, ours = both(lambda library: getattr(library, name)(library.tensor(ODD)))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", ["sign", "sgn"])
def test_signs_of_booleans_have_memory_of_their_own(name: str) -> None:
    x = cg.tensor([True, False])
    getattr(x, name)().fill_(True)
    assert x.tolist() == [True, False]


@pytest.mark.parametrize(
    "name", ["floor_divide", "remainder", "fmod", "maximum", "fmax", "minimum", "fmin", "xlogy", "pow"]
)
def test_odd_pairs(name: str) -> None:
    def program(library):
        x = library.tensor(ODD, dtype=library.float64)
        return getattr(library, name)(x[:, None], x)

    theirs, ours = both(program)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize(
    "program",
    [
        lambda lib, x, y: x**y,
        lambda lib, x, y: x**0,
        lambda lib, x, y: 0.0**y,
        lambda lib, x, y: lib.clamp(x, 0.0, 2.0),
        lambda lib, x, y: lib.clamp(x, y, y + 1),
        lambda lib, x, y: lib.clamp(x, y + 1, y),
        lambda lib, x, y: lib.maximum(x, y) + lib.minimum(x, y * 2),
        lambda lib, x, y: lib.fmax(x, y),
        lambda lib, x, y: lib.atan2(x, y),
        lambda lib, x, y: lib.nan_to_num(x / x),
        lambda lib, x, y: lib.where(x > 0, x, y),
        lambda lib, x, y: x.abs() + lib.sinc(y),
        lambda lib, x, y: lib.logit(x, 0.1),
        lambda lib, x, y: lib.xlogy(x, y),
        lambda lib, x, y: lib.copysign(x, y),
    ],
)
def test_gradients_at_corners(program) -> None:
    """At ties, bounds and zeros there is no derivative; PyTorch's choice is ours."""
    grads = []
    for library in BOTH:
        x = library.tensor([0.0, 0.0, 2.0, -1.0, 1.0], dtype=library.float64, requires_grad=True)
        y = library.tensor([0.0, 2.0, 2.0, 3.0, 0.0], dtype=library.float64, requires_grad=True)
        program(library, x, y).sum().backward()
        grads.append([None if leaf.grad is None else leaf.grad.tolist() for leaf in (x, y)])
    for theirs, ours in zip(*grads, strict=True):
        assert (theirs is None) == (ours is None)
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift", "floordiv", "mod", "pow"])
def test_operators_on_integers(name: str) -> None:
    act = getattr(operator, name)
    theirs, ours = both(lambda library: act(library.tensor([-7, 5, 12]), 3))
    assert ours == theirs
    if name != "pow":
        theirs, ours = both(lambda library: act(9, library.tensor([1, 2, 4])))
        assert ours == theirs


def test_invert_is_logical_for_booleans() -> None:
    assert (~cg.tensor([True, False])).tolist() == [False, True]
    assert (~cg.tensor([1, -3])).tolist() == [-2, 2]
    with pytest.raises(TypeError):
        ~cg.tensor([1.0])


def test_augmented_assignment_writes_in_place() -> None:
    x = cg.tensor([5, 6, 7])
    same = x
    x += 1
    x //= 2
    x <<= 2
    x &= 13
    assert same is x
    assert x.tolist() == [12, 12, 0]
    with pytest.raises(RuntimeError):
        x /= 2


def test_equality_with_anything() -> None:
    x = cg.tensor([1.0, 2.0])
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    assert x in [x]
    with pytest.raises(TypeError):
        operator.lt(x, None)
    with pytest.raises(TypeError):
        operator.add(x, "a")


def test_subtraction_refuses_masks() -> None:
    mask = cg.tensor([True, False])
    for act in (lambda: mask - mask, lambda: 1 - mask, lambda: mask - 1, lambda: cg.ones(2) - True):
        with pytest.raises(RuntimeError):
            act()


def test_integers_divided_by_zero() -> None:
    for name in ("floor_divide", "remainder", "fmod"):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            getattr(cg, name)(cg.tensor([1, 2]), cg.tensor([1, 0]))


def test_where_alone_is_nonzero() -> None:
    (places,) = cg.where(cg.tensor([False, True, True]))
    assert places.tolist() == [1, 2]


def test_positive_and_parts_are_the_tensor_itself() -> None:
    x = cg.tensor([1.0])
    assert +x is x
    assert cg.real(x) is x
    assert x.conj() is x
    with pytest.raises(RuntimeError):
        cg.imag(x)


def test_real_part_shares_memory() -> None:
    z = cg.tensor([1 + 2j, 3 - 1j])
    z.real[0] = 7.0
    cg.view_as_real(z)[1, 1] = 5.0
    assert z.tolist() == [7 + 2j, 3 + 5j]


def test_complex_gradients() -> None:
    def program(library):
        z = library.tensor([1 + 2j, 3 - 1j], dtype=library.complex128, requires_grad=True)
        parts = library.view_as_real(z).prod() + (z.exp() / z).abs().sum() + (z * z.conj()).real.sum()
        (parts + library.angle(z).sum() + library.sgn(z).imag.sum() + (z**3 * 1j).real.sum()).backward()
        return z.grad

    theirs, ours = both(program)
    np.testing.assert_allclose(ours, theirs)


def test_frexp_has_names() -> None:
    result = cg.frexp(cg.tensor([1.5, -6.0]))
    assert result.mantissa.tolist() == [0.75, -0.75]
    assert result.exponent.tolist() == [1, 3]


def test_negative_integer_powers() -> None:
    with pytest.raises(RuntimeError):
        cg.tensor([2, 3]) ** -1
    assert (cg.tensor([1, -1, -1, 5]) ** cg.tensor([-3, -3, -2, -1])).tolist() == [1, -1, 1, 0]


def test_polygamma_as_function_and_method() -> None:
    for order in range(4):
        theirs, ours = both(lambda library, n=order: library.polygamma(n, library.tensor([0.5, 1.5, -0.7])))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert cg.tensor([1.0]).polygamma(1).item() == pytest.approx(math.pi**2 / 6, rel=1e-6)


def test_special_names() -> None:
    of_softmax = {"softmax", "log_softmax"}
    missing = [name for name in torch.special.__all__ if not hasattr(cg.special, name)]
    assert set(missing) <= of_softmax
