"""Comparing gradients with differences of values: torch.autograd.gradcheck and gradgradcheck.

Read next: ops/op.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.api import grad
from cleargrad.autograd.node import edge_of
from cleargrad.core.mode import settle
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.errors import error


class GradcheckError(RuntimeError):
    """The analytical gradient is not the numerical one."""


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether backward's Jacobian equals that of central differences, for every input that requires grad."""
    values = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        check_inputs(values)
        leaves = [x for x in values if isinstance(x, Tensor) and edge_of(x) is not None]
        outs = differentiable(func(*values))
        if not outs:
            check_constant(func, values, leaves, eps, atol)
        for number, out in enumerate(outs):
            expected = numerical(lambda: differentiable(func(*values))[number], leaves, eps)  # noqa: B023
            actual = analytical(out, leaves)
            again = analytical(differentiable(func(*values))[number], leaves)
            compare(number, leaves, actual, expected, atol, rtol)
            check_repeatable(number, actual, again, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """gradcheck of the gradient: whether double backward is right, also in the incoming gradient."""
    values = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outs = differentiable(func(*values))
    if grad_outputs is None:
        generator = np.random.default_rng(0)
        starts = [wrap(generator.standard_normal(out._form.shape).astype(out._form.dtype)) for out in outs]
        starts = [start.requires_grad_(True) for start in starts]
    else:
        starts = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    count = len(values)

    def gradient(*arguments: Any) -> tuple:
        given = arguments[:count]
        leaves = [x for x in given if isinstance(x, Tensor) and edge_of(x) is not None]
        results = differentiable(func(*given))
        parts = grad(results, leaves, arguments[count:], create_graph=True, allow_unused=True)
        return tuple(part for part in parts if part is not None and edge_of(part) is not None)

    return gradcheck(
        gradient, (*values, *starts), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol,
    )  # fmt: skip


def check_inputs(values: tuple) -> None:
    leaves = [x for x in values if isinstance(x, Tensor) and edge_of(x) is not None]
    if not leaves:
        rule = (
            "gradcheck expects at least one input tensor to require gradient, "
            "but none of the them have requires_grad=True."
        )
        raise error(ValueError, "gradcheck", rule)
    for leaf in leaves:
        if leaf._form.dtype.kind == "f" and leaf._form.dtype.itemsize < 8:
            import warnings

            warnings.warn(
                "an input that requires gradient is not double precision; "
                "differences of its values are too rough",
                stacklevel=3,
            )


def tensors(outputs: Any) -> list[Tensor]:
    items = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    return [out for out in items if isinstance(out, Tensor)]


def differentiable(outputs: Any) -> list[Tensor]:
    return [out for out in tensors(outputs) if edge_of(out) is not None]


def numerical(evaluate: Callable[[], Tensor], leaves: list[Tensor], eps: float) -> list[np.ndarray]:
    """For each leaf a matrix: row = number in the leaf, column = that in the output; complex ones are two."""
    matrices = []
    for leaf in leaves:
        rows = []
        for index in np.ndindex(leaf._form.shape):
            for step in (eps, eps * 1j) if leaf._form.dtype.kind == "c" else (eps,):
                rows.append(difference(evaluate, leaf._data, index, step) / eps)
        matrices.append(np.array(rows).reshape(len(rows), -1) if rows else np.zeros((0, 0)))
    return matrices


def difference(evaluate: Callable[[], Tensor], data: np.ndarray, index: tuple, step: complex) -> np.ndarray:
    """Half the change of the output when one element of the input moves by a step in both directions."""
    settle()
    keep = data[index]
    data[index] = keep + step
    high = as_reals(evaluate()._data)
    data[index] = keep - step
    low = as_reals(evaluate()._data)
    data[index] = keep
    return (high - low) / 2


def as_reals(data: np.ndarray) -> np.ndarray:
    """Numbers in a row, complex ones as real and imaginary part."""
    if data.dtype.kind == "c":
        return np.stack([data.real, data.imag], -1).astype(np.float64).ravel()
    return data.astype(np.float64).ravel()


def analytical(out: Tensor, leaves: list[Tensor]) -> list[np.ndarray]:
    """The same matrices from backward: of a complex output the real part (1), then the imaginary (1j)."""
    columns: list[list[np.ndarray]] = [[] for _ in leaves]
    for k in range(out._form.size):
        for unit in (1, 1j) if out._form.dtype.kind == "c" else (1,):
            start = np.zeros(out._form.size, out._form.dtype)
            start[k] = unit
            parts = grad(out, leaves, wrap(start.reshape(out._form.shape)), True, allow_unused=True)
            for column, leaf, part in zip(columns, leaves, parts, strict=True):
                column.append(as_reals(np.zeros_like(leaf._data) if part is None else part._data))
    return [np.array(column).T if column else np.zeros((0, 0)) for column in columns]


def check_constant(func: Callable, values: tuple, leaves: list[Tensor], eps: float, atol: float) -> None:
    """Outputs that do not require gradients must not change with the inputs."""
    for number in range(len(tensors(func(*values)))):
        matrices = numerical(lambda: tensors(func(*values))[number], leaves, eps)  # noqa: B023
        if any(np.abs(matrix).max(initial=0) > atol for matrix in matrices):
            rule = f"output {number} does not require grad, so its numerical gradient is expected to be zero"
            raise error(GradcheckError, "gradcheck", rule)


def compare(number: int, leaves: list, actual: list, expected: list, atol: float, rtol: float) -> None:
    for position, (a, n) in enumerate(zip(actual, expected, strict=True)):
        if (a.size or n.size) and not np.allclose(a, n, rtol=rtol, atol=atol, equal_nan=True):
            rule = f"Jacobian mismatch for output {number} with respect to input {position}"
            raise error(GradcheckError, "gradcheck", rule, numerical=f"\n{n}", analytical=f"\n{a}")


def check_repeatable(number: int, first: list, second: list, tolerance: float) -> None:
    for position, (a, b) in enumerate(zip(first, second, strict=True)):
        if a.size and np.abs(a - b).max() > tolerance:
            rule = (
                f"backward is not reentrant: output {number}, input {position} gave two different gradients"
            )
            raise error(GradcheckError, "gradcheck", rule)
