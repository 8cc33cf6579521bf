"""Functions with a gradient of the user's own: torch.autograd.Function.

A subclass states forward and backward; `apply` runs forward without recording and ties one node to the graph,
whose vjp is backward. Both of PyTorch's styles work: `forward(ctx, ...)`, and `forward(...)` with
`setup_context`. Read next: autograd/functional.py.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.modes import no_grad
from cleargrad.autograd.node import (
    FREED,
    AccumulateGrad,
    Node,
    Output,
    edge_of,
    extra_of,
    freed_error,
    pack,
    saved_output,
)
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor, cell_of, room_of, tick, value_in, wrap, wrap_any, wrap_beside
from cleargrad.errors import error, user_place


class FunctionCtx:
    """What forward leaves for backward; any attribute may be set on it."""

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True

    def __init__(self) -> None:
        self.to_save: tuple = ()
        self.dirty: tuple = ()
        self.non_differentiable: tuple = ()
        self.node: Callable[[], FunctionNode | None] = lambda: None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for backward, checked against later writes."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                rule = f"save_for_backward can only save tensors, but got {type(tensor).__name__}"
                raise error(
                    TypeError, "save_for_backward", rule, fix="set it as an attribute: ctx.name = value"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Accepted for PyTorch's sake; there is no forward mode that would read them."""

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Says which inputs forward changed in place."""
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says which outputs have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """With False, backward gets None for outputs that received no gradient, instead of zeros."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple:
        node = self.node()
        if node is None:
            return self.to_save
        if node.saved is FREED:
            raise freed_error(node)
        return tuple(node.unpack(value) for value in node.saved)


class FunctionNode(Node):
    """The node of a Function: its vjp is the user's backward."""

    function: type[Function]
    ctx: FunctionCtx

    @property
    def fills_zeros(self) -> bool:  # type: ignore[override]
        return self.ctx.materialize_grads

    def pull(self, grad: Any, wanted: tuple | None = None) -> list:
        grads = list(grad) if self.outputs > 1 else [grad]
        if self.fills_zeros and self.outputs > 1:  # the walk leaves out outputs that have no gradients at all
            for number, part in enumerate(grads):
                if part is None:
                    grads[number] = wrap(np.zeros(self.shape[number], self.dtype[number]))
        result = self.function.backward(self.ctx, *grads)
        return self.checked(list(result) if isinstance(result, tuple) else [result])

    def checked(self, parts: list) -> list:
        expected = len(self.edges)
        if len(parts) > expected and all(part is None for part in parts[expected:]):
            parts = parts[:expected]
        if len(parts) != expected:
            counts = f"(expected {expected}, got {len(parts)})"
            rule = f"function {self.name()} returned an incorrect number of gradients {counts}"
            raise error(RuntimeError, "backward", rule)
        for position, (edge, part) in enumerate(zip(self.edges, parts, strict=True)):
            if part is not None and not isinstance(part, Tensor):
                given = f"{type(part).__name__} at position {position}"
                rule = f"{self.name()} returned {given}; expected Tensor or None"
                raise error(RuntimeError, "backward", rule)
            if edge is not None and part is not None:
                self.check_shape(position, edge, part)
        return parts

    def check_shape(self, position: int, edge: Any, part: Tensor) -> None:
        from cleargrad.autograd.node import shape_at

        shape, given = shape_at(edge), part._form.shape
        if shape == given:
            return
        fits = len(given) >= len(shape) and all(
            want in (1, have) for want, have in zip(reversed(shape), reversed(given), strict=False)
        )
        if not fits:
            rule = (
                f"Function {self.name()} returned an invalid gradient at index {position} - "
                f"got {list(given)} but expected shape compatible with {list(shape)}"
            )
            raise error(RuntimeError, "backward", rule)

    def __getattr__(self, name: str) -> Any:
        # PyTorch's grad_fn is the ctx itself, so what was set on ctx can be read from it.
        if name in ("ctx", "function"):
            raise AttributeError(name)
        return getattr(self.ctx, name)


class Function:
    """Base of functions with a gradient of their own; call them with `apply`."""

    generate_vmap_rule = False
    node_kind = FunctionNode

    def __init__(self, *args: Any, **kwargs: Any):
        name = type(self).__name__
        rule = f"{name} should not be instantiated; its methods are static, call {name}.apply(...)"
        raise error(RuntimeError, "Function", rule)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use "
            "it with backward mode AD."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs forward and ties its outputs to the graph."""
        ctx = FunctionCtx()
        edges = tuple(edge_of(x) if isinstance(x, Tensor) else None for x in args)
        ctx.needs_input_grad = tuple(edge is not None for edge in edges)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *args, **kwargs)
            else:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
        outputs = output if isinstance(output, tuple) else (output,)
        if mode.grad and any(edge is not None for edge in edges):
            outputs = tie_function(cls, ctx, args, edges, outputs)
        elif ctx.dirty:
            mark_written(ctx)
        return tuple(outputs) if isinstance(output, tuple) else outputs[0]


def mark_written(ctx: FunctionCtx) -> None:
    for tensor in ctx.dirty:
        tensor.bump()


def tie_function(cls: type[Function], ctx: FunctionCtx, args: tuple, edges: tuple, outputs: tuple) -> tuple:
    """Makes the node, and gives the outputs their edges."""
    from cleargrad.ops.inplace import check_history, rebase

    for tensor in ctx.dirty:
        check_history(tensor, cls.__name__)
    mark_written(ctx)
    node = make_function_node(cls, ctx, edges)
    skip = {id(tensor) for tensor in ctx.non_differentiable}
    dirty = {id(tensor) for tensor in ctx.dirty}
    inputs = {id(x) for x in args if isinstance(x, Tensor)}
    tensors = [out for out in outputs if isinstance(out, Tensor)]
    renamed = {id(out): own_output(out, id(out) in inputs and id(out) not in dirty) for out in tensors}
    numbered = {id(out): k for k, out in enumerate(tensors)}
    node.saved = save_values(ctx, renamed, numbered)
    several = len(tensors) > 1
    shapes, dtypes = [t._form.shape for t in tensors], [t._form.dtype for t in tensors]
    node.shape, node.dtype = (
        (shapes, dtypes) if several else (shapes[0], dtypes[0]) if tensors else ((), None)
    )
    extra_of(node).outputs = max(len(tensors), 1)
    for k, out in enumerate(tensors):
        if id(out) in skip or out._form.dtype.kind not in "fcV":
            continue
        edge = Output(node, k) if k else node
        if id(out) in dirty:
            rebase(out, edge)
        else:
            renamed[id(out)]._edge = edge
    ctx.to_save = ctx.dirty = ctx.non_differentiable = ()
    return tuple(renamed[id(out)] if isinstance(out, Tensor) else out for out in outputs)


def make_function_node(cls: Any, ctx: FunctionCtx, edges: tuple) -> FunctionNode:
    node = node_class(cls)()
    node.function, node.ctx, node.edges = cls, ctx, edges
    node.plan = node.attrs = node.extra = None
    node.place = user_place()
    node.tick = tick()
    ctx.node = weakref.ref(node)
    return node


@functools.cache
def node_class(cls: Any) -> type[FunctionNode]:
    return type(f"{cls.__name__}Backward", (cls.node_kind,), {"__module__": cls.__module__})


def own_output(out: Tensor, is_input: bool) -> Tensor:
    """An input that forward returns as it is becomes a tensor of its own on the same memory."""
    if not is_input and (out._edge is None or type(out._edge) is not AccumulateGrad):
        return out
    alias = wrap_any(value_in(out))
    alias._ver = cell_of(out)
    room_of(out).add(alias)
    return alias


def save_values(ctx: FunctionCtx, renamed: dict[int, Tensor], numbered: dict[int, int]) -> tuple:
    dirty = {id(tensor) for tensor in ctx.dirty}
    values = tuple(
        saved_output(renamed[id(t)], numbered[id(t)]) if id(t) in numbered and id(t) not in dirty else t
        for t in ctx.to_save
    )
    return pack(values) if mode.saved_hooks else values


def once_differentiable(backward: Callable) -> Callable:
    """Marks a backward that must not be differentiated again: doing so raises."""

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        recording = mode.grad and any(isinstance(g, Tensor) and edge_of(g) is not None for g in grads)
        with no_grad():
            result = backward(ctx, *grads)
        if not recording:
            return result
        parts = result if isinstance(result, tuple) else (result,)
        refused = tuple(Refuse.apply(part) if isinstance(part, Tensor) else part for part in parts)
        return refused if isinstance(result, tuple) else refused[0]

    return wrapped


class Refuse(Function):
    """The identity, whose gradient is an error."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap_any(value_in(x))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        raise error(
            RuntimeError,
            "backward",
            "trying to differentiate twice a function that was marked with @once_differentiable",
        )

    @classmethod
    def apply(cls, x: Tensor) -> Tensor:
        leaf = wrap_beside(np.zeros_like(x._form), x)
        leaf.requires_grad_(True)
        with_edge = super().apply(leaf)
        out = wrap_any(value_in(x))
        out._edge = with_edge._edge
        return out


class InplaceFunction(Function):
    """A Function that may write in place; programs derive from it, and use it as a Function."""
