"""torch.autograd.graph: saved-tensor hooks, nodes, and hooks on several tensors."""

from __future__ import annotations

from cleargrad.autograd.modes import save_on_cpu as save_on_cpu
from cleargrad.autograd.modes import saved_tensors_hooks as saved_tensors_hooks
from cleargrad.autograd.node import Node as Node
from cleargrad.autograd.node import edge_of as _edge_of
from cleargrad.autograd.node import split_edge as _split_edge


def get_gradient_edge(tensor):  # type: ignore[no-untyped-def]
    """The node a tensor's gradient goes to, and which of its outputs the tensor is."""
    return _split_edge(_edge_of(tensor))
