"""torch.autograd.graph: nodes, where gradients go, and hooks on what is saved.

Read next: autograd/gradcheck.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cleargrad.autograd.modes import disable_saved_tensors_hooks as disable_saved_tensors_hooks
from cleargrad.autograd.modes import save_on_cpu as save_on_cpu
from cleargrad.autograd.modes import saved_tensors_hooks as saved_tensors_hooks
from cleargrad.autograd.node import Node, edge_of, split_edge
from cleargrad.autograd.node import RemovableHandle as RemovableHandle
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
