"""torch.autograd's functions: backward and grad.

Read next: autograd/modes.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from cleargrad.autograd.node import edge_of, is_leaf
from cleargrad.autograd.walk import leads_elsewhere, walk
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor, wrap_beside
from cleargrad.errors import error


def as_tuple(tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    return (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds the gradients of `tensors` to `.grad` of the leaves, or of `inputs` only."""
    if grad_variables is not None:
        if grad_tensors is not None:
            rule = "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`"
            raise error(RuntimeError, "backward", rule, fix="use `grad_tensors`")
        text = "`grad_variables` is deprecated. Use `grad_tensors` instead."
        warnings.warn(text, FutureWarning, stacklevel=2)
        grad_tensors = grad_variables
    if isinstance(tensors, Tensor) and grad_tensors is None and inputs is None:  # as nearly always
        keep = create_graph if retain_graph is None else retain_graph
        waiter = mode.simply
        waits = waiter is not None and waiter.run.is_waiting(tensors)
        here = waits or not leads_elsewhere(tensors)
        if here and waiter is not None and not (create_graph or mode.observer or mode.anomaly):
            waiter.backward(tensors, bool(keep))
            return
        walk((tensors,), (start_gradient(tensors, None),), retain_graph=keep, create_graph=create_graph)
        return
    roots = as_tuple(tensors)
    grads = start_gradients(roots, grad_tensors)
    targets = None
    if inputs is not None:
        targets = as_tuple(inputs)
        if not targets:
            raise error(RuntimeError, "backward", "`inputs` argument to `backward()` cannot be empty.")
        for target in targets:
            check_target("backward", target)
    keep = create_graph if retain_graph is None else retain_graph
    pairs = [(root, grad) for root, grad in zip(roots, grads, strict=True) if grad is not None]
    if targets is not None and any(not is_leaf(target) for target in targets):
        accumulate_into_nonleaves(pairs, targets, keep, create_graph)
        return
    walk(
        [root for root, _ in pairs],
        [grad for _, grad in pairs],
        retain_graph=keep,
        create_graph=create_graph,
        targets=targets,
    )


def accumulate_into_nonleaves(
    pairs: list, targets: tuple[Tensor, ...], keep: bool, create_graph: bool
) -> None:
    """`inputs=` may name tensors that are not leaves; their gradients go to `.grad` as well."""
    found = walk(
        [root for root, _ in pairs], [grad for _, grad in pairs],
        retain_graph=keep, create_graph=create_graph, targets=targets, accumulate=False,
    )  # fmt: skip
    for target, grad in zip(targets, found, strict=True):
        if grad is not None:
            target._grad = grad if target._grad is None else target._grad + grad


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`; `.grad` is left alone."""
    roots, targets = as_tuple(outputs), as_tuple(inputs)
    if not targets:
        raise error(RuntimeError, "grad", "grad requires non-empty inputs.")
    if materialize_grads and allow_unused is False:
        rule = "expected allow_unused to be True or not passed when materialize_grads=True, but got False"
        raise error(ValueError, "grad", rule)
    for target in targets:
        check_target("grad", target)
    if is_grads_batched:
        return batched_grad(roots, targets, grad_outputs, retain_graph, create_graph, allow_unused)
    grads = start_gradients(roots, grad_outputs)
    found = walk(
        roots, grads,  # type: ignore[arg-type]
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph, targets=targets, accumulate=False,
    )  # fmt: skip
    for position, (target, part) in enumerate(zip(targets, found, strict=True)):
        if part is None and materialize_grads:
            found[position] = target.new_zeros(target._form.shape)  # type: ignore[attr-defined]
        elif part is None and not allow_unused:
            rule = "one of the differentiated Tensors appears to not have been used in the graph."
            fix = "set allow_unused=True if this is the desired behavior"
            raise error(RuntimeError, "grad", rule, fix=fix, position=position, input=target)
    return tuple(found)


def batched_grad(
    roots: tuple, targets: tuple, grad_outputs: Any, keep: Any, create: bool, unused: Any
) -> tuple:
    """`is_grads_batched`: one walk per vector, stacked."""
    from cleargrad.ops.joining import stack

    vectors = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    count = vectors[0]._form.shape[0]
    rows = []
    for k in range(count):
        last = k == count - 1
        parts = [vector[k] for vector in vectors]
        rows.append(grad(roots, targets, parts, keep if last else True, create, allow_unused=unused))
    return tuple(None if column[0] is None else stack(column) for column in zip(*rows, strict=True))


def check_target(op: str, target: Any) -> None:
    if not isinstance(target, Tensor):
        raise error(TypeError, op, f"inputs can be tensors only, got {type(target).__name__}")
    if edge_of(target) is None:
        raise error(RuntimeError, op, "One of the differentiated Tensors does not require grad", input=target)


def start_gradients(roots: tuple[Tensor, ...], grads: Any) -> list[Tensor | None]:
    """The gradient each root starts with: ones for a scalar, else what the caller gives."""
    given = (None,) * len(roots) if grads is None else as_tuple(grads)
    if len(given) != len(roots):
        rule = f"got {len(roots)} tensors and {len(given)} gradients"
        raise error(RuntimeError, "backward", rule)
    return [start_gradient(root, gradient) for root, gradient in zip(roots, given, strict=True)]


def start_gradient(root: Tensor, gradient: Tensor | None) -> Tensor:
    if not isinstance(root, Tensor):
        raise error(TypeError, "backward", f"can only start from tensors, got {type(root).__name__}")
    if edge_of(root) is None:
        rule = "element 0 of tensors does not require grad and does not have a grad_fn"
        fix = "compute it from a tensor with requires_grad=True, outside no_grad() and detach()"
        raise error(RuntimeError, "backward", rule, fix=fix, tensor=root)
    if gradient is None:
        if root._form.size != 1:
            rule = "grad can be implicitly created only for scalar outputs"
            fix = "call .sum() or .mean() first, or pass gradient="
            raise error(RuntimeError, "backward", rule, fix=fix, tensor=root)
        if root._form.dtype.kind == "c":
            rule = f"grad can be implicitly created only for real scalar outputs but got {root.dtype}"
            raise error(RuntimeError, "backward", rule, fix="pass gradient=, or take .real or .abs()")
        one = np.array(1, root._form.dtype).reshape(root._form.shape)
        if mode.recorder is not None:
            return mode.recorder.constant(one)
        if mode.waiter is not None and mode.waiter.takes((root,)):
            return mode.waiter.constant(one, root)
        return wrap_beside(one, root)
    if not isinstance(gradient, Tensor):
        raise error(TypeError, "backward", f"gradients can be tensors or None, got {type(gradient).__name__}")
    if gradient._form.shape != root._form.shape:
        rule = "the gradient must have the shape of the tensor it belongs to"
        raise error(RuntimeError, "backward", rule, tensor=root, gradient=gradient)
    if gradient._form.dtype.kind == "c" and root._form.dtype.kind != "c":
        rule = "the gradient of a real tensor must be real"
        raise error(RuntimeError, "backward", rule, tensor=root, gradient=gradient)
    return gradient
