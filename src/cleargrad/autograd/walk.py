"""The backward walk: from some outputs to the leaves, newest node first, without recursion.

What comes in: root tensors and their gradients. What goes out: `.grad` of the leaves, or the gradients of
chosen tensors. Each node runs when all its consumers have run; among the ready ones the newest goes first, and
leaves go at once, as in PyTorch. Read next: ops/op.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from cleargrad.autograd.node import AccumulateGrad, Node, NodePreHook, Output, edge_of, split_edge
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor, as_array, wrap
from cleargrad.errors import error, line_of

AT_ONCE = -sys.maxsize  # the heap key of leaves


def walk(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor],
    *,
    retain_graph: bool,
    create_graph: bool,
    targets: Sequence[Tensor] | None = None,
    accumulate: bool = True,
) -> list[Tensor | None]:
    """Runs the vjps. With `targets`, only what leads to them; without `accumulate`, returns their gradients."""
    waiting = count_consumers(roots)
    wanted = None if targets is None else leads_to(waiting, targets)
    goals = () if targets is None or accumulate else {split_edge(edge_of(target)) for target in targets}
    captured: dict[tuple[Node, int], Tensor] = {}
    arrived: dict[Node, Any] = {}
    ready: list[tuple[int, int, Node]] = []  # a heap
    for root, grad in zip(roots, grads, strict=True):
        node, number = split_edge(edge_of(root))
        deliver(arrived, node, number, grad)
        if waiting[node] == 0:
            waiting[node] = -1  # queued; two roots may share a node
            heappush(ready, (heap_key(node), id(node), node))

    plain = not create_graph and mode.recorder is None
    before = mode.set(grad=create_graph)
    try:
        following = None  # a node that just became ready, when it is the only one
        while ready or following is not None:
            if following is None:
                node = heappop(ready)[2]
            elif ready:
                node = heappushpop(ready, (heap_key(following), id(following), following))[2]
            else:
                node = following
            following = None
            grad = arrived.pop(node, None)
            if grad is not None:
                if node.prehooks or node.keepers:
                    grad = run_prehooks(node, grad)
                if goals:
                    keep_captured(captured, goals, node, grad)
            if type(node) is AccumulateGrad:
                if accumulate and grad is not None and (wanted is None or wanted[node]):
                    add_to_leaf(node, grad, create_graph)
                grad = None
                continue
            edges = node.edges
            if grad is None or (wanted is not None and not leads_on(node, wanted)):
                pulled = (None,) * len(edges)
            else:
                pulled = pull(node, grad, wanted)
                if not retain_graph:
                    node.free()
            for edge, part in zip(edges, pulled, strict=False):
                if edge is None:
                    continue
                number = 0
                if type(edge) is Output:
                    edge, number = edge.node, edge.number
                if part is not None:
                    data = part._data
                    if edge.outputs > 1 or data.dtype is not edge.dtype or data.shape != edge.shape:
                        deliver(arrived, edge, number, part)
                    elif edge not in arrived:
                        arrived[edge] = part
                    elif plain:
                        arrived[edge] = wrap(as_array(arrived[edge]._data + data))
                    else:
                        arrived[edge] = arrived[edge] + part
                left = waiting[edge] - 1
                waiting[edge] = left
                if left == 0:
                    if following is not None:
                        heappush(ready, (heap_key(following), id(following), following))
                    following = edge
            edge = part = pulled = data = grad = None  # so that a gradient nobody else holds is seen as such
    finally:
        mode.set(**before)
    if targets is None:
        return []
    return [captured.get(split_edge(edge_of(target))) for target in targets]


def heap_key(node: Node) -> int:
    return AT_ONCE if type(node) is AccumulateGrad else -node.tick


def count_consumers(roots: Sequence[Tensor]) -> dict[Node, int]:
    """For every node that can be reached, how many edges lead to it from reached nodes."""
    waiting: dict[Node, int] = {}
    stack = []
    for root in roots:
        node = split_edge(edge_of(root))[0]
        if node not in waiting:
            waiting[node] = 0
            stack.append(node)
    while stack:
        for edge in stack.pop().edges:
            if edge is None:
                continue
            node = edge.node if type(edge) is Output else edge
            if node in waiting:
                waiting[node] += 1
            else:
                waiting[node] = 1
                stack.append(node)
    return waiting


def leads_to(reached: dict[Node, int], targets: Sequence[Tensor]) -> dict[Node, bool]:
    """Which nodes lie on a way to a target; older nodes first, so that inputs are decided before outputs."""
    goals = {split_edge(edge_of(target))[0] for target in targets}
    wanted: dict[Node, bool] = {}
    for node in sorted(reached, key=lambda node: node.tick):
        wanted[node] = node in goals or any(
            edge is not None and wanted[split_edge(edge)[0]] for edge in node.edges
        )
    return wanted


def leads_on(node: Node, wanted: dict[Node, bool]) -> bool:
    """Whether anything beyond this node is asked for."""
    return any(edge is not None and wanted[split_edge(edge)[0]] for edge in node.edges)


def deliver(arrived: dict[Node, Any], node: Node, number: int, grad: Tensor) -> None:
    """Adds a gradient to what has arrived at an output, in that output's own shape and dtype."""
    several = node.outputs > 1
    shape, dtype = (node.shape[number], node.dtype[number]) if several else (node.shape, node.dtype)
    data = grad._data
    if data.shape != shape:
        grad = grad.sum_to_size(shape)
    if data.dtype is not dtype and data.dtype != dtype:
        grad = match_dtype(grad, dtype)
    if several:
        slots = arrived.get(node)
        if slots is None:
            slots = arrived[node] = [None] * node.outputs
        slots[number] = grad if slots[number] is None else slots[number] + grad
    else:
        present = arrived.get(node)
        arrived[node] = grad if present is None else present + grad


def match_dtype(grad: Tensor, dtype: np.dtype) -> Tensor:
    if grad._data.dtype.kind == "c" and dtype.kind != "c":
        grad = grad.real
    from cleargrad.core.dtype import OF_NUMPY

    return grad.to(OF_NUMPY[dtype])


def pull(node: Node, grad: Any, wanted: dict[Node, bool] | None) -> list:
    """A node's vjp with everything around it: missing gradients of outputs, hooks, anomaly checks."""
    if wanted is None and node.outputs == 1 and not node.posthooks and not mode.anomaly:
        return node.pull(grad)
    if node.outputs > 1:
        grad = [zeros(node, k) if part is None else part for k, part in enumerate(grad)]
    mask = None
    if wanted is not None:
        mask = tuple(edge is not None and wanted[split_edge(edge)[0]] for edge in node.edges)
    if mode.anomaly:
        pulled = pull_with_checks(node, grad, mask)
    else:
        pulled = node.pull(grad, mask)
    if node.posthooks:
        outputs = tuple(grad) if node.outputs > 1 else (grad,)
        for hook in list(node.posthooks.values()):
            result = hook(tuple(pulled), outputs)
            if result is not None:
                pulled = list(result) if isinstance(result, (tuple, list)) else [result]
    return pulled


def zeros(node: Node, number: int) -> Tensor | None:
    if node.dtype[number].kind in "iub":
        return None
    return wrap(np.zeros(node.shape[number], node.dtype[number]))


def run_prehooks(node: Node, grad: Any) -> Any:
    grads = grad if node.outputs > 1 else [grad]
    for hook in list((node.prehooks or {}).values()):
        if type(hook) is NodePreHook:
            result = hook.hook(tuple(grads))
            if result is not None:
                grads = list(result) if isinstance(result, (tuple, list)) else [result]
        elif grads[hook.number] is not None:
            grads[hook.number] = checked_hook_result(hook.hook(grads[hook.number]), grads[hook.number])
    for keeper in list((node.keepers or {}).values()):
        if grads[keeper.number] is not None:
            keeper.hook(grads[keeper.number])
    return grads if node.outputs > 1 else grads[0]


def checked_hook_result(result: Any, grad: Tensor) -> Tensor:
    if result is None:
        return grad
    if not isinstance(result, Tensor):
        rule = f"a gradient hook must return None or a tensor, it returned {type(result).__name__}"
        raise error(TypeError, "register_hook", rule)
    if result._data.shape != grad._data.shape:
        rule = "a gradient hook must not change the gradient's size"
        raise error(RuntimeError, "register_hook", rule, was=grad, returned=result)
    return result


def keep_captured(captured: dict, goals: Any, node: Node, grad: Any) -> None:
    for number, part in enumerate(grad if node.outputs > 1 else [grad]):
        if part is not None and (node, number) in goals:
            captured[node, number] = part


def add_to_leaf(node: AccumulateGrad, grad: Tensor, create_graph: bool) -> None:
    """Accumulation as PyTorch does it: in place when `.grad` exists, so that it keeps its identity."""
    leaf = node.leaf()
    if leaf is None:
        return
    present = leaf._grad
    if present is None:
        leaf._grad = grad if create_graph else own(grad, leaf)
    elif create_graph:
        leaf._grad = present + grad
    else:
        np.add(present._data, grad._data, out=present._data)
        present.bump()
    if node.posthooks:
        for hook in list(node.posthooks.values()):
            hook(leaf)


def own(grad: Tensor, leaf: Tensor) -> Tensor:
    """The gradient as memory of its own: handed over when nobody else can see it, else copied."""
    data = grad._data
    unshared = (
        data.base is None
        and grad._edge is None
        and grad._base is None
        and sys.getrefcount(grad) <= TENSOR_REFERENCES
        and sys.getrefcount(data) <= ARRAY_REFERENCES
        and data.strides == leaf._data.strides
    )
    if unshared:
        return grad
    fresh = np.empty_like(leaf._data, subok=False) if leaf._data.flags.forc else np.empty(data.shape, data.dtype)
    fresh[...] = data
    return wrap(fresh)


# How many references an unshared gradient has at the check in `own`: its caller's frames plus the check itself.
# They are counted here, on a tensor that is certainly unshared, since the number differs between Pythons.
TENSOR_REFERENCES = sys.maxsize
ARRAY_REFERENCES = sys.maxsize


def _count_references() -> tuple[int, int]:
    seen: list[int] = []

    def check(grad: Tensor, leaf: Tensor) -> None:
        data = grad._data
        seen.append(sys.getrefcount(grad))
        seen.append(sys.getrefcount(data))

    def add(node: Any, grad: Tensor, create_graph: bool) -> None:
        check(grad, grad)

    def loop() -> None:
        grad = {0: wrap(np.zeros(1))}.pop(0)
        add(None, grad, False)

    loop()
    return seen[0], seen[1]


TENSOR_REFERENCES, ARRAY_REFERENCES = _count_references()


def pull_with_checks(node: Node, grad: Any, mask: tuple | None) -> list:
    """Anomaly mode: says which forward line the failing or NaN-making vjp belongs to."""
    try:
        pulled = node.pull(grad, mask)
    except Exception as failure:
        if node.place is not None:
            failure.add_note(f"anomaly: the op was recorded at {line_of(node.place)}")
        raise
    if mode.check_nan:
        for number, part in enumerate(pulled):
            if part is not None and part._data.dtype.kind in "fcV" and np.isnan(part._data).any():
                rule = f"Function '{node.name()}' returned nan values in its {number}th output."
                facts = {} if node.place is None else {"recorded": line_of(node.place)}
                raise error(RuntimeError, "detect_anomaly", rule, **facts)
    return pulled
