"""torch.autograd.graph: nodes, where gradients go, and hooks on what is saved.

Read next: autograd/gradcheck.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from cleargrad.autograd.modes import disable_saved_tensors_hooks as disable_saved_tensors_hooks
from cleargrad.autograd.modes import save_on_cpu as save_on_cpu
from cleargrad.autograd.modes import saved_tensors_hooks as saved_tensors_hooks
from cleargrad.autograd.node import Node, edge_of, split_edge
from cleargrad.autograd.node import RemovableHandle as RemovableHandle
from cleargrad.autograd.walk import count_consumers, leads_to
from cleargrad.core.mode import mode as thread
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error


class GradientEdge(NamedTuple):
    """A node, and which of its outputs is meant."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The node a tensor's gradient goes to, and which of its outputs the tensor is."""
    edge = edge_of(tensor)
    if edge is None:
        rule = "it is not possible to get the gradient edge for a Tensor that does not require gradients"
        raise error(RuntimeError, "get_gradient_edge", rule, tensor=tensor)
    return GradientEdge(*split_edge(edge))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Tells autograd that tensors were changed behind its back."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        each.bump()


# Hooks on several tensors ----------------------------------------------------------------------------------


class MultiHandle(RemovableHandle):
    """Removes the hooks of several tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]):
        super().__init__({})
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class Together:
    """Gathers the gradients that several tensors get in one backward walk."""

    def __init__(self, tensors: Sequence[Tensor], function: Callable, first_only: bool):
        self.nodes = [get_gradient_edge(tensor).node for tensor in tensors]
        self.function = function
        self.first_only = first_only
        self.walk: Any = None

    def begin(self) -> None:
        """A new walk: which of the tensors will it reach?"""
        self.walk = thread.walk
        roots, targets = self.walk
        reached = count_consumers(roots)
        wanted = reached if targets is None else leads_to(reached, targets)
        self.expected = sum(1 for node in self.nodes if node in reached and (targets is None or wanted[node]))
        self.grads: list[Tensor | None] = [None] * len(self.nodes)
        self.count = 0

    def hook_of(self, place: int) -> Callable:
        def hook(grad: Tensor) -> None:
            if self.walk is not thread.walk:
                self.begin()
            self.count += 1
            self.grads[place] = grad
            if self.first_only and self.count == 1:
                self.function(grad)
            elif not self.first_only and self.count == self.expected:
                self.function(self.grads)
                self.walk, self.grads = None, []

        return hook


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable, *, mode: Literal["all", "any"] = "all"
) -> RemovableHandle:
    """`fn(grads)` runs in every backward once all tensors that it reaches have their gradients; those that it does
    not reach have None. With mode="any", `fn(grad)` gets the first of them.
    """
    if mode not in ("all", "any"):
        raise error(
            ValueError, "register_multi_grad_hook", f"Expects mode to be one of ('all', 'any') but got {mode}"
        )
    together = Together(tensors, fn, mode == "any")
    return MultiHandle([tensor.register_hook(together.hook_of(k)) for k, tensor in enumerate(tensors)])
