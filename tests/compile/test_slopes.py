"""Slopes of dear functions are computed forward and take the memory of x, wherever nobody else needs that."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.devices.cpu.programs.chains import Chain
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.devices.cpu.programs.signature import arguments_of
from cleargrad.expr.numpy_reading import read
from cleargrad.nn import functional
from cleargrad.ops.op import OPS
from cleargrad.schedule.fuse import Nest
from tests.bits import same_bits
from tests.compile.world import kept_program

FUNCTIONS: dict[str, Callable] = {
    "gelu": functional.gelu,
    "gelu by tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


def nests(entries: list[Any]) -> Iterator[Nest]:
    for entry in entries:
        if isinstance(entry, Nest):
            yield entry
        elif isinstance(entry, Chain):
            yield from nests(entry.entries)


def dear_nests(program: Program) -> int:
    """How many nests compute an exponential or the like."""
    keys = [arguments_of(nest).key for nest in nests(program.entries)]
    return sum(
        any(f"{name}(" in key for name in ("erf", "exp", "tanh", "sigmoid", "normal_below")) for key in keys
    )


def checked(function: Callable, *leaves: Any, kind: Any = None, several: bool = False) -> Program:
    """The program of a function of x @ w and of its gradients, which must agree with those of an eager call."""

    def step(x: Any) -> list[Any]:
        out, *others = function(x) if several else [function(x)]
        return [out, *others, *cg.autograd.grad(out.square().sum(), leaves)]

    x = cg.randn(40, 24, dtype=kind)
    expected = step(x)
    found, program = kept_program(step, x)
    for one, other in zip(found, expected, strict=True):
        same_bits(one, other)
    return program


def leaf(*shape: int, kind: Any = None) -> Any:
    return cg.randn(*shape, dtype=kind).requires_grad_()


@pytest.mark.parametrize("kind", [cg.float32, cg.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_slopes_are_computed_with_their_functions(name: str, kind: Any) -> None:
    cg.manual_seed(0)
    w, v = leaf(24, 32, kind=kind), leaf(32, 5, kind=kind)
    program = checked(lambda x: FUNCTIONS[name](x @ w + 0.5) @ v, w, v, kind=kind)
    assert dear_nests(program) == 1


def test_x_that_is_kept_for_others() -> None:
    """x is an input, or read after its slope, or a result: its slope would be memory besides."""
    cg.manual_seed(0)
    w, v = leaf(24, 24), leaf(24, 5)
    assert dear_nests(checked(lambda x: functional.silu(x * v.sum()) @ v, v)) == 2

    def read_again(x: Any) -> Any:
        inner = x @ w
        return functional.silu(inner) @ v + (inner.square() @ w) @ v

    checked(read_again, w, v)

    def shown(x: Any) -> list[Any]:
        inner = x @ w
        return [functional.gelu(inner) @ v, inner]

    assert dear_nests(checked(shown, w, v, several=True)) == 2


def test_functions_without_a_gradient() -> None:
    cg.manual_seed(0)
    w, v = leaf(24, 24), leaf(24, 5)
    program = checked(lambda x: functional.gelu((x @ w).detach()) @ v, v)
    assert dear_nests(program) == 1


def test_gradients_of_gradients() -> None:
    cg.manual_seed(0)
    w, v = leaf(24, 24), leaf(24, 5)

    def slope(x: Any) -> Any:
        inner = x @ w
        (first,) = cg.autograd.grad((functional.gelu(inner) @ v).sum(), inner, create_graph=True)
        return first @ v

    checked(slope, w, v)


def test_the_normal_distribution_is_as_exact_as_it_says() -> None:
    x = np.concatenate([np.linspace(-14, 14, 4001), np.geomspace(1e-30, 1, 300), [0.0]]).astype(np.float32)
    below = np.array([0.5 * math.erfc(-float(value) * math.sqrt(0.5)) for value in x])
    density = np.exp(-0.5 * x.astype(np.float64) ** 2) / math.sqrt(2 * math.pi)
    value, slope = OPS["gelu"].lower, OPS["gelu_backward"].lower
    found = read(value, 1)(x)
    np.testing.assert_array_less(np.abs(found - x * below), 1.6e-7 * np.abs(x) + 1e-37)
    near = np.abs(x) < 4  # relatively, too: 0.5 · (1 + erf) is off by 5e-4 at -4
    np.testing.assert_allclose(found[near], (x * below)[near], rtol=1e-6)
    times_slope = read(slope, 2)(np.ones_like(x), x)
    np.testing.assert_allclose(times_slope, below + x * density, rtol=0, atol=4e-7)


def test_numbers_at_the_ends() -> None:
    x = np.array([np.inf, np.nan, 1e30, -1e30, 0.0, -0.0, 30.0, -30.0], np.float32)
    with np.errstate(all="ignore"):
        found = read(OPS["gelu"].lower, 1)(x)
    np.testing.assert_array_equal(
        found, np.array([np.inf, np.nan, 1e30, -0.0, 0.0, -0.0, 30.0, -0.0], np.float32)
    )
