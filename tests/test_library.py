"""torch.library and torch.ops: operators of a program's own."""

from importlib import import_module
from typing import Any

import pytest

import cleargrad as cg
from cleargrad.library import operators
from tests.oracle import same


def test_a_custom_operator_with_a_gradient() -> None:
    def run(T: Any) -> Any:
        library = import_module(f"{T.__name__}.library")

        @library.custom_op("zoo_test::cube", mutates_args=())
        def cube(x: T.Tensor) -> T.Tensor:
            return x * x * x

        @cube.register_fake
        def _(x: T.Tensor) -> T.Tensor:
            return T.empty_like(x)

        def keep(ctx: Any, inputs: tuple, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 30 * grad * x * x  # ten times the truth, to see that it is asked

        cube.register_autograd(backward, setup_context=keep)
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = cube(x)
        y.sum().backward()
        return y, x.grad

    same(run)
    assert operators.zoo_test.cube(cg.tensor(2.0)).item() == 8.0
    assert operators.zoo_test.cube.default is operators.zoo_test.cube


def test_operators_that_are_announced_first() -> None:
    library = cg.library.Library("zoo_late", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    assert operators.zoo_late.twice(cg.tensor(2.0)).item() == 4.0
    library._destroy()
    with pytest.raises(AttributeError, match=r"torch\.ops\.zoo_late\.twice"):
        operators.zoo_late.twice(cg.ones(1))


def test_compiled_operators_are_not_there() -> None:
    with pytest.raises(OSError, match="compiled for PyTorch"):
        operators.load_library("lib.so")
    cg.library.register_fake("absent::op")(lambda x: x)
    with pytest.raises(ValueError, match="namespace"):
        cg.library.custom_op("alone", lambda x: x)
