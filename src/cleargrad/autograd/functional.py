"""torch.autograd.functional: Jacobians, Hessians and their products with vectors.

All of them are built on `grad`; jvp uses the derivative of a vjp in its own direction. Read next:
autograd/gradcheck.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.api import grad
from cleargrad.autograd.modes import enable_grad
from cleargrad.autograd.node import edge_of
from cleargrad.core.tensor import Tensor, wrap_beside
from cleargrad.errors import error


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: for each output and each input a tensor of shape (*output, *input)."""
    with enable_grad():
        leaves, outs, single_in, single_out = evaluate("jacobian", func, inputs, create_graph, strict)
        rows = tuple(output_jacobian(out, leaves, create_graph, strict) for out in outs)
    rows = rows if create_graph else tuple(tuple(part.detach() for part in row) for row in rows)
    rows = tuple(row[0] for row in rows) if single_in else rows
    return rows[0] if single_out else rows


def output_jacobian(out: Tensor, leaves: tuple, create_graph: bool, strict: bool) -> tuple[Tensor, ...]:
    from cleargrad.ops.joining import stack

    columns: list[list[Tensor]] = [[] for _ in leaves]
    flat = out.reshape(-1)
    for k in range(flat._form.size):
        for column, part in zip(columns, derivative(flat[k], leaves, create_graph, strict), strict=True):
            column.append(part)
    shape = tuple(out._form.shape)
    return tuple(
        stack(column).reshape(shape + tuple(leaf._form.shape))
        if column
        else zeros(shape + tuple(leaf._form.shape), leaf)
        for column, leaf in zip(columns, leaves, strict=True)
    )


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a scalar function: the Jacobian of its gradient."""
    single = isinstance(inputs, Tensor)

    def gradient(*values: Tensor) -> Any:
        out = scalar_of("hessian", func(*values))
        parts = derivative(out, values, True, strict)
        return parts[0] if single else parts

    return jacobian(gradient, inputs, create_graph, strict)


def vjp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """The outputs, and the product of the vector `v` with the Jacobian."""
    with enable_grad():
        leaves, outs, single_in, single_out = evaluate("vjp", func, inputs, create_graph, strict)
        vectors = vectors_for("vjp", outs, v)
        parts = derivative(outs, leaves, create_graph, strict, vectors)
    return packed(outs, single_out, create_graph), packed(parts, single_in, create_graph)


def jvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """The outputs, and the product of the Jacobian with the vector `v`."""
    with enable_grad():
        leaves, outs, _, single_out = evaluate("jvp", func, inputs, create_graph, strict)
        vectors = vectors_for("jvp", leaves, v)
        # The vjp is linear in its vector; its derivative with respect to that vector is the Jacobian.
        dummies = tuple(zeros(out._form.shape, out).requires_grad_(True) for out in outs)
        pulled = derivative(outs, leaves, True, strict, dummies)
        parts = derivative(pulled, dummies, create_graph, strict, vectors)
    return packed(outs, single_out, create_graph), packed(parts, single_out, create_graph)


def vhp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """The output, and the product of the vector `v` with the Hessian."""
    with enable_grad():
        leaves, outs, single_in, single_out = evaluate("vhp", func, inputs, create_graph, strict)
        if not single_out:
            raise error(RuntimeError, "vhp", "the function given to vhp should return a single tensor")
        vectors = vectors_for("vhp", leaves, v)
        first = derivative(scalar_of("vhp", outs[0]), leaves, True, strict)
        parts = derivative(first, leaves, create_graph, strict, vectors)
    return packed(outs, True, create_graph), packed(parts, single_in, create_graph)


def hvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """The output, and the product of the Hessian with the vector `v`; the Hessian is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)


# Shared steps ----------------------------------------------------------------------------------------------


def evaluate(name: str, func: Callable, inputs: Any, create_graph: bool, strict: bool) -> tuple:
    """Fresh inputs that require gradients, the function's outputs, and whether each side was one tensor."""
    single_in = isinstance(inputs, Tensor)
    given = tensors_of(name, "inputs", inputs)
    leaves = tuple(
        x.view_as(x) if create_graph and edge_of(x) is not None else x.detach().clone().requires_grad_(True)
        for x in given
    )
    outputs = func(*leaves)
    outs = tensors_of(name, "outputs", outputs)
    for position, out in enumerate(outs):
        if strict and edge_of(out) is None:
            rule = f"output {position} of the user-provided function does not require gradients"
            raise error(RuntimeError, name, rule, fix="in strict mode every output must depend on the inputs")
    return leaves, outs, single_in, isinstance(outputs, Tensor)


def tensors_of(name: str, what: str, given: Any) -> tuple[Tensor, ...]:
    items = (given,) if isinstance(given, Tensor) else given
    if not isinstance(items, (tuple, list)) or not all(isinstance(item, Tensor) for item in items):
        rule = (
            f"the {what} given to {name} must be a tensor or a tuple of tensors, got {type(given).__name__}"
        )
        raise error(TypeError, name, rule)
    return tuple(items)


def vectors_for(name: str, like: tuple[Tensor, ...], v: Any) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0]._form.size != 1:
            rule = "the vector v can only be None if the function returns (or takes) a single element"
            raise error(RuntimeError, name, rule)
        return (wrap_beside(np.ones_like(like[0]._form), like[0]),)
    vectors = tensors_of(name, "vector", v)
    if len(vectors) != len(like):
        raise error(RuntimeError, name, f"v has {len(vectors)} tensors, {len(like)} are needed")
    for vector, tensor in zip(vectors, like, strict=True):
        if vector._form.shape != tensor._form.shape:
            raise error(RuntimeError, name, "v has invalid size", v=vector, expected=tensor)
    return vectors


def derivative(
    outs: Any, leaves: tuple, create_graph: bool, strict: bool, vectors: Any = None
) -> tuple[Tensor, ...]:
    """`grad`, with zeros where nothing depends on an input, or an error in strict mode."""
    pairs = (
        [(outs, vectors)]
        if isinstance(outs, Tensor)
        else list(zip(outs, vectors or [None] * len(outs), strict=True))
    )
    live = [(out, vector) for out, vector in pairs if edge_of(out) is not None]
    if live:
        starts = [vector for _, vector in live]
        parts = grad(
            [out for out, _ in live],
            leaves,
            None if starts[0] is None else starts,
            True,
            create_graph,
            allow_unused=True,
        )
    else:
        parts = (None,) * len(leaves)
    for position, part in enumerate(parts):
        if part is None and strict:
            rule = f"the output does not depend on input {position}"
            raise error(RuntimeError, "autograd.functional", rule, fix="use strict=False to get zeros")
    return tuple(
        zeros(leaf._form.shape, leaf) if part is None else part
        for part, leaf in zip(parts, leaves, strict=True)
    )


def zeros(shape: tuple, like: Tensor) -> Tensor:
    return wrap_beside(np.zeros(shape, like._form.dtype), like)


def scalar_of(name: str, out: Any) -> Tensor:
    if not isinstance(out, Tensor) or out._form.size != 1:
        raise error(RuntimeError, name, f"the function given to {name} should return a single element")
    return out.reshape(())


def packed(parts: tuple, single: bool, create_graph: bool) -> Any:
    parts = parts if create_graph else tuple(part.detach() for part in parts)
    return parts[0] if single else parts
