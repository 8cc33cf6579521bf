"""The graph behind a loss, as boxes and arrows: what was computed, from which leaves, and what is kept.

Nodes of autograd come in, of PyTorch or of cleargrad; plain data goes out, and no node is kept. Large graphs are
gathered into modules until they can be read. Read next: reports/graph_figure.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

READABLE = 36  # boxes
MOST_BOXES = 160
MOST_CALLS = 4000  # of modules, that are remembered while a graph is built

Chain = tuple[tuple[str, int], ...]  # the calls of modules around a node, outermost first: path and number


@dataclass(slots=True)
class Saved:
    """A tensor that a node keeps for backward."""

    name: str
    shape: tuple[int, ...]
    size: int  # in bytes
    is_parameter: bool


@dataclass(slots=True)
class Box:
    """`kind` is "op", "module", "leaf" or "loss"; `inputs` are the positions of boxes that it was computed from."""

    kind: str
    title: str
    shape: tuple[int, ...] | None
    ops: list[str] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)  # module: the names of its leaves
    saved: list[Saved] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Graph:
    boxes: list[Box]  # inputs before what was computed from them
    nodes: int  # of autograd, before they were gathered
    leaves: int
    saved: int  # bytes kept for backward, each piece of memory once, parameters aside
    left_out: int = 0  # boxes


class Calls:
    """Notes the calls of modules while a graph is built, so that nodes can be told apart by module."""

    def __init__(self, path_of: Callable[[Any], str | None]) -> None:
        self.path_of = path_of
        self.stack: list[tuple[str, int]] = []
        self.finished: list[
            tuple[Chain, list[Any], list[Any]]
        ] = []  # chain, nodes of inputs, nodes of outputs
        self.count = 0

    def begin(self, module: Any) -> None:
        self.count += 1
        self.stack.append((self.path_of(module) or "", self.count))

    def end(self, inputs: Any, outputs: Any) -> None:
        if not self.stack:
            return
        chain = tuple(call for call in self.stack if call[0])
        self.stack.pop()
        if chain and len(self.finished) < MOST_CALLS:
            self.finished.append((chain, nodes_in(inputs), nodes_in(outputs)))


def nodes_in(values: Any) -> list[Any]:
    """The nodes of the tensors in a value or in a list, tuple or dictionary of values."""
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (list, tuple)):
        return [node for value in values for node in nodes_in(value)]
    node = getattr(values, "grad_fn", None)
    return [] if node is None else [node]


# Reading a graph -------------------------------------------------------------------------------------------


def read(root: Any, calls: Calls, name_of: Callable[[Any], str | None], engine: str) -> Graph | None:
    """The graph behind a loss; None where there is none."""
    if root is None or root.grad_fn is None:
        return None
    nodes = in_order(root.grad_fn)
    chains = chains_of(calls)
    saved = {id(node): saved_by(node, engine) for node in nodes}
    for depth in (0, 99, 3, 2, 1):
        boxes = gather(nodes, chains, depth, saved, name_of)
        if len(boxes) <= READABLE:
            break
    left_out = max(0, len(boxes) - MOST_BOXES)
    boxes = newest(boxes, left_out)
    boxes[-1].kind = "loss"
    leaves = sum(name_of(node) is not None for node in nodes)
    return Graph(boxes, len(nodes), leaves, memory_of(nodes, engine), left_out)


def in_order(root: Any) -> list[Any]:
    """All nodes, each after those that it was computed from."""
    order: list[Any] = []
    state: dict[int, bool] = {}
    stack = [(root, False)]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            order.append(node)
        elif id(node) not in state:
            state[id(node)] = True
            stack.append((node, True))
            stack += [(below, False) for below, _ in reversed(node.next_functions) if below is not None]
    return order


def chains_of(calls: Calls) -> dict[int, Chain]:
    """For each node between the inputs and the outputs of a module's call, that call; the innermost one counts."""
    chains: dict[int, Chain] = {}
    for chain, inputs, outputs in calls.finished:
        seen = {id(node) for node in inputs}
        waiting = list(outputs)
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            chains.setdefault(id(node), chain)
            waiting += [below for below, _ in node.next_functions if below is not None]
    return chains


def gather(
    nodes: list[Any],
    chains: dict[int, Chain],
    depth: int,
    saved: dict[int, list[Saved]],
    name_of: Callable[[Any], str | None],
) -> list[Box]:
    """Boxes at a depth: 0 is every node by itself, 1 the outermost modules."""
    boxes: list[Box] = []
    position_of: dict[Any, int] = {}
    keys = keys_at(nodes, chains, depth)
    for node in nodes:
        key, leaf = keys[id(node)], name_of(node)
        is_gathered = key != id(node)
        if key not in position_of:
            position_of[key] = len(boxes)
            boxes.append(Box("module", key[0], None) if is_gathered else single(node, leaf, chains))
        position = position_of[key]
        box = boxes[position]
        if is_gathered and leaf is not None:
            box.leaves.append(leaf)
        elif leaf is None:
            box.ops.append(title_of(node))
            box.shape = shape_of(node)
        box.saved += saved[id(node)]
        sources = [position_of[keys[id(below)]] for below, _ in node.next_functions if below is not None]
        box.inputs += [source for source in dict.fromkeys(sources) if source not in (position, *box.inputs)]
    return sort_boxes(boxes)


def keys_at(nodes: list[Any], chains: dict[int, Chain], depth: int) -> dict[int, Any]:
    """What each node is gathered under: a call of a module, or its own identity.

    What a module computes between the calls of its own parts stays by itself, or arrows would run in circles.
    """
    within = {
        id(node): [call for call in chains.get(id(node), ()) if call[0].count(".") < depth] for node in nodes
    }
    with_parts = {call for calls in within.values() for call in calls[:-1]}
    return {
        number: calls[-1] if calls and calls[-1] not in with_parts else number
        for number, calls in within.items()
    }


def single(node: Any, leaf: str | None, chains: dict[int, Chain]) -> Box:
    """A node by itself; the module that it belongs to stands in front of its name."""
    if leaf is not None:
        return Box("leaf", leaf, shape_of(node))
    chain = chains.get(id(node), ())
    return Box("op", f"{chain[-1][0]}: {title_of(node)}" if chain else title_of(node), shape_of(node))


def sort_boxes(boxes: list[Box]) -> list[Box]:
    """Inputs first again: gathering may have put a module before something that its later nodes use."""
    order: list[int] = []
    state: dict[int, int] = {}
    stack = [(position, False) for position in reversed(range(len(boxes)))]
    while stack:
        position, is_left = stack.pop()
        if is_left:
            order.append(position)
        elif position not in state:
            state[position] = 1
            stack.append((position, True))
            stack += [(source, False) for source in reversed(boxes[position].inputs) if source not in state]
    new = {old: position for position, old in enumerate(order)}
    for old, box in enumerate(boxes):
        box.inputs = sorted(new[source] for source in box.inputs if new[source] < new[old])
    return [boxes[old] for old in order]


def newest(boxes: list[Box], left_out: int) -> list[Box]:
    """Without the first boxes, which are furthest from the loss."""
    for box in boxes[left_out:]:
        box.inputs = [source - left_out for source in box.inputs if source >= left_out]
    return boxes[left_out:]


# One node --------------------------------------------------------------------------------------------------


def title_of(node: Any) -> str:
    """`mse_loss` of MseLossBackward0."""
    name = re.sub(r"Backward\d*$", "", str(node.name()).rpartition("::")[2])
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def shape_of(node: Any) -> tuple[int, ...] | None:
    """The shape of a node's (first) output."""
    variable = getattr(node, "variable", None)
    if variable is not None:
        return tuple(variable.shape)
    metadata = getattr(node, "_input_metadata", None)  # PyTorch's
    if metadata is not None:
        return tuple(int(size) for size in metadata[0].shape) if metadata else None
    shape = getattr(node, "shape", None)  # cleargrad's
    return shape if shape is None or all(isinstance(size, int) for size in shape) else shape[0]


def saved_by(node: Any, engine: str) -> list[Saved]:
    return [
        Saved(
            name,
            tuple(tensor.shape),
            bytes_of(tensor),
            bool(getattr(tensor, "is_leaf", False) and needs_grad(tensor)),
        )
        for name, tensor in tensors_saved_by(node, engine)
    ]


def tensors_saved_by(node: Any, engine: str) -> Iterable[tuple[str, Any]]:
    """Names and tensors, or arrays of cleargrad's, that a node keeps for backward."""
    if engine == "cleargrad":
        operands = len(node.edges)
        for position, value in enumerate(node.saved if isinstance(node.saved, tuple) else ()):
            value = value[0] if isinstance(value, tuple) else value
            if is_tensor(value):
                yield ("result" if position >= operands else f"input {position + 1}"), value
        return
    for name in dir(node):
        if name.startswith("_saved_"):
            value = getattr(node, name)
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if is_tensor(each):
                    yield name.removeprefix("_saved_"), each


def is_tensor(value: Any) -> bool:
    return type(getattr(value, "shape", None)).__name__ in ("tuple", "Size")


def needs_grad(tensor: Any) -> bool:
    return bool(getattr(tensor, "requires_grad", False))


def bytes_of(tensor: Any) -> int:
    return int(tensor.nbytes)


def memory_of(nodes: list[Any], engine: str) -> int:
    """Bytes that the graph keeps for backward, each piece of memory once; parameters are there anyway."""
    seen: dict[int, int] = {}
    for node in nodes:
        for _, tensor in tensors_saved_by(node, engine):
            if not (getattr(tensor, "is_leaf", False) and needs_grad(tensor)):
                seen[address_of(tensor)] = max(seen.get(address_of(tensor), 0), bytes_of(tensor))
    return sum(seen.values())


def address_of(tensor: Any) -> int:
    return tensor.ctypes.data if type(tensor).__module__ == "numpy" else tensor.data_ptr()
