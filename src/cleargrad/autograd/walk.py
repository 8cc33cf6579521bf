"""The backward walk: from some outputs to the leaves, newest node first, without recursion.

What comes in: root tensors and their gradients. What goes out: `.grad` of the leaves, or the gradients of
chosen tensors. Each node runs when all its consumers have run; among the ready ones the newest goes first,
and leaves go at once, as in PyTorch. `walk` is the whole of it; `loss.backward()` without anything unusual
takes `walk_plainly`, where gradients travel as arrays. Read next: ops/op.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush, heappushpop
from typing import Any
from weakref import ref

import numpy as np

from cleargrad.autograd.node import (
    FREED,
    AccumulateGrad,
    Extra,
    Node,
    NodePreHook,
    Output,
    Packed,
    edge_of,
    freed_error,
    moves,
    note_pass,
    split_edge,
    stale_error,
)
from cleargrad.autograd.plan import PASS, UNTRACED, VjpCall
from cleargrad.core.device import CPU
from cleargrad.core.dtype import OF_NUMPY
from cleargrad.core.mode import at_once, mode, settle
from cleargrad.core.shortage import shortage
from cleargrad.core.tensor import Tensor, as_array, cell_of, held, place_of, tick, wrap
from cleargrad.core.watch import watch
from cleargrad.errors import error, line_of

AT_ONCE = -sys.maxsize  # the heap key of leaves
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
ndarray = np.ndarray


class Ready:
    """Nodes that wait for their turn: leaves at once, then the newest; of several leaves the one that
    `std::priority_queue` gives, since hooks show their order, and PyTorch's is that.
    """

    def __init__(self) -> None:
        self.heap: list[tuple[int, Node]] = []

    def push(self, node: Node) -> None:
        heap, entry = self.heap, (heap_key(node), node)
        heap.append(entry)
        self.rise(len(heap) - 1, entry)

    def pop(self) -> Node:
        heap = self.heap
        last = heap.pop()
        if not heap:
            return last[1]
        first, hole, child = heap[0][1], 0, 2
        while child < len(heap):
            if heap[child][0] > heap[child - 1][0]:
                child -= 1
            heap[hole] = heap[child]
            hole, child = child, 2 * child + 2
        if child == len(heap):
            heap[hole] = heap[child - 1]
            hole = child - 1
        self.rise(hole, last)
        return first

    def rise(self, hole: int, entry: tuple[int, Node]) -> None:
        heap = self.heap
        while hole and heap[(hole - 1) // 2][0] > entry[0]:
            heap[hole] = heap[(hole - 1) // 2]
            hole = (hole - 1) // 2
        heap[hole] = entry


def in_order(roots: Sequence[Tensor], waiting: dict[Node, int]) -> Iterator[Node]:
    """The nodes behind some roots, each after all its consumers; `waiting` says how many those are."""
    ready = Ready()
    for node in {split_edge(edge_of(root))[0]: None for root in roots}:
        if waiting[node] == 0:
            ready.push(node)
    while ready.heap:
        node = ready.pop()
        yield node
        for edge in node.edges:
            if edge is not None:
                if type(edge) is Output:
                    edge = edge.node
                left = waiting[edge] - 1
                waiting[edge] = left
                if left == 0:
                    ready.push(edge)


def newest_first(roots: Sequence[Tensor]) -> Iterator[Node]:
    """The same nodes by age alone, with the leaves last.

    Consumers are always newer than what they consume, so nothing has to be counted. Only hooks on leaves
    could tell the difference: they expect to run as soon as a leaf's gradient is complete.
    """
    heap: list[tuple[int, int, Node]] = []
    queued = set()
    leaves = []
    for root in roots:
        node = split_edge(edge_of(root))[0]
        if node not in queued:
            queued.add(node)
            heappush(heap, (-node.tick, id(node), node))
    ready: Node | None = None
    while heap or ready is not None:
        if ready is None:
            node = heappop(heap)[2]
        elif heap:
            node = heappushpop(heap, (-ready.tick, id(ready), ready))[2]
        else:
            node = ready
        yield node
        ready = None
        for edge in node.edges:
            if edge is None:
                continue
            if type(edge) is Output:
                edge = edge.node
            if edge in queued:
                continue
            queued.add(edge)
            if type(edge) is AccumulateGrad:
                leaves.append(edge)
            elif ready is None:
                ready = edge
            else:
                heappush(heap, (-edge.tick, id(edge), edge))
    yield from leaves


def walk(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor],
    *,
    retain_graph: bool,
    create_graph: bool,
    targets: Sequence[Tensor] | None = None,
    accumulate: bool = True,
) -> list[Tensor | None]:
    """Runs the vjps. With `targets`, only what leads there; without `accumulate`, returns their gradients."""
    special = (mode.recorder, mode.waiter, mode.observer) != (None, None, None) or mode.anomaly
    if any(map(leads_elsewhere, roots)):
        special = True
        if mode.waiter is not None and mode.recorder is None and not mode.waiter.takes(roots):
            settle("a backward pass goes through devices where nothing waits")
            with at_once():
                return walk(
                    roots, grads, retain_graph=retain_graph, create_graph=create_graph, targets=targets,
                    accumulate=accumulate,
                )  # fmt: skip
    if targets is None and not create_graph and not special:
        walk_plainly(roots, grads, retain_graph)
        return []
    waiting = count_consumers(roots)
    return travel(roots, grads, waiting, retain_graph, create_graph, targets, accumulate)


def travel(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor],
    waiting: dict[Node, int],
    retain_graph: bool,
    create_graph: bool,
    targets: Sequence[Tensor] | None,
    accumulate: bool,
) -> list[Tensor | None]:
    """The walk itself, through the nodes that are `waiting`."""
    wanted = None if targets is None else leads_to(waiting, targets)
    goals = () if targets is None or accumulate else {split_edge(edge_of(target)) for target in targets}
    captured: dict[tuple[Node, int], Tensor] = {}
    arrived: dict[Node, Any] = {}
    for root, grad in zip(roots, grads, strict=True):
        deliver(arrived, *split_edge(edge_of(root)), grad)
    before = mode.set(grad=create_graph, walk=(roots, targets))
    try:
        for node in in_order(roots, waiting):
            grad = arrived.pop(node, None)
            if type(node) is AccumulateGrad:
                needed = accumulate and (wanted is None or wanted[node])
            else:
                needed = wanted is None or leads_on(node, wanted)
            if grad is not None and not needed and node.extra is not None:
                grad = run_tensor_hooks(node.extra, grad)
            if grad is not None and goals:
                keep_captured(captured, goals, node, grad)  # before hooks of nodes that run, as in PyTorch
            if grad is not None and needed and node.extra is not None:
                grad = run_prehooks(node.extra, grad)
            if grad is None or not needed:
                pass
            elif type(node) is AccumulateGrad:
                add_to_leaf(node, grad, create_graph)
            else:
                pulled = pull(node, grad, wanted)
                if not retain_graph:
                    node.free()
                for edge, part in zip(node.edges, pulled, strict=False):
                    if edge is not None and part is not None:
                        deliver(arrived, *split_edge(edge), part)
    finally:
        mode.set(**before)
    if not retain_graph:
        note_pass(roots[0])
    return [] if targets is None else [captured.get(split_edge(edge_of(target))) for target in targets]


def leads_elsewhere(root: Tensor) -> bool:
    """Whether a pass from here comes to other devices than the CPU: it goes by tensors then, not by arrays."""
    if place_of(root) is not CPU:
        return True
    return (
        bool(moves)
        and edge_of(root) is not None
        and any(ref(node) in moves for node in count_consumers((root,)))
    )


def walk_plainly(roots: Sequence[Tensor], grads: Sequence[Tensor], retain_graph: bool) -> None:
    """The walk of an ordinary `loss.backward()`. Gradients travel as arrays: one formula stays one call."""
    arrived: dict[Node, Any] = {}
    for root, grad in zip(roots, grads, strict=True):
        deliver_array(arrived, edge_of(root), grad._data)
    before, outer = mode.turn(False), mode.walk
    mode.walk = (roots, None)
    counted = AccumulateGrad.hooked
    try:
        for node in in_order(roots, count_consumers(roots)) if counted else newest_first(roots):
            data = arrived.pop(node, None)
            if data is None:
                continue
            if node.extra is not None:
                push_with_hooks(arrived, node, data)
            elif type(node) is AccumulateGrad:
                add_array_to_leaf(node, data)
            else:
                push(arrived, node, data)
            if not retain_graph:
                node.free()
            data = None  # so that an array nobody else holds is seen as such
    except Exception as failure:
        if not counted:
            fill_completed(roots, arrived, node)
        if isinstance(failure, MemoryError):
            raise shortage("backward", failure) from failure
        raise
    finally:
        mode.walk = outer
        mode.turn(before)
    if not retain_graph:
        note_pass(roots[0])


def fill_completed(roots: Sequence[Tensor], arrived: dict[Node, Any], failed: Node) -> None:
    """When a formula or a hook fails, leaves behind all that has run have their gradients, as in PyTorch."""
    waiting = {
        split_edge(edge)[0]
        for node in count_consumers(roots)
        if node.tick <= failed.tick
        for edge in node.edges
        if edge is not None
    }
    for node, data in arrived.items():
        if type(node) is AccumulateGrad and node not in waiting:
            add_array_to_leaf(node, data)


def push(arrived: dict[Node, Any], node: Node, data: np.ndarray) -> None:
    """Runs a node's vjps and delivers what they give. Written out flat: it is what every node costs."""
    saved, kind, edges = node.saved, node.dtype, node.edges
    if saved is FREED:
        raise freed_error(node)
    quick = data.dtype is kind and (kind is F32 or kind is F64)
    for step in node.plan.steps:
        part = None
        kernel = step.kernel
        if quick and kernel is not None:
            if kernel is UNTRACED:
                kernel = step.traced()
            if kernel is PASS:
                part = data
            elif kernel is not None:
                large = step.large
                if large is None or data.size < large:
                    kernel = step.kernel32 if kind is F32 else step.kernel64
                else:
                    kernel = step.large32 if kind is F32 else step.large64
                arrays = []
                for position in step.positions:
                    value = saved[position]
                    if type(value) is tuple:
                        array, cell, _ = value
                        if type(array) is not ndarray:
                            array = array._data
                    elif isinstance(value, Tensor):
                        array, cell = value._data, value._ver
                        if array.dtype is not kind:
                            break
                    elif type(value) is float or type(value) is int:
                        array, cell = value, None
                    else:
                        break
                    if cell is not None and cell[0] > node.tick:
                        raise stale_error(node, value)
                    arrays.append(array)
                else:
                    part = kernel(data, array) if step.single else kernel(data, *arrays)
                    if type(part) is not ndarray:
                        part = np.asarray(part)
        if part is None:
            push_tensors(arrived, node, step, data)
            continue
        # A formula's result has the node's own shape and dtype.
        edge = edges[step.input]
        if edge.dtype is not kind or edge.shape != node.shape:
            deliver_array(arrived, edge, part)
            continue
        present = arrived.get(edge)
        if present is not None:
            part = present + part
            if type(part) is not ndarray:
                part = np.asarray(part)
        arrived[edge] = part


def push_tensors(arrived: dict[Node, Any], node: Node, step: VjpCall, data: np.ndarray) -> None:
    """A vjp that is more than one formula: it runs on tensors."""
    saved, unpack = node.saved, node.unpack
    values = [unpack(saved[position]) for position in step.positions]
    if step.attrs or step.shapes:
        result = step.vjp(wrap(data), *values, **node.named(step))
    else:
        result = step.vjp(wrap(data), *values)
    if step.input is not None:
        if result is not None:
            deliver_array(arrived, node.edges[step.input], result._data)
        return
    for edge, part in zip(node.edges, result, strict=False):
        if edge is not None and part is not None:
            deliver_array(arrived, edge, part._data)


def deliver_array(arrived: dict[Node, Any], edge: Any, data: np.ndarray) -> None:
    """Adds an array to what has arrived at an output, in that output's own shape and dtype."""
    if type(edge) is not Output and edge.extra is None:  # a node with one output, which nearly all are
        if data.shape != edge.shape or data.dtype != edge.dtype:
            data = fitted(wrap(data), edge.shape, edge.dtype)._data
        present = arrived.get(edge)
        arrived[edge] = data if present is None else as_array(present + data)
        return
    node, number = split_edge(edge)
    several = node.outputs > 1
    shape, dtype = (node.shape[number], node.dtype[number]) if several else (node.shape, node.dtype)
    if data.shape != shape or data.dtype != dtype:
        data = fitted(wrap(data), shape, dtype)._data
    if not several:
        present = arrived.get(node)
        arrived[node] = data if present is None else as_array(present + data)
        return
    slots = arrived.setdefault(node, [None] * node.outputs)
    slots[number] = data if slots[number] is None else as_array(slots[number] + data)


def push_with_hooks(arrived: dict[Node, Any], node: Node, data: Any) -> None:
    """A node with hooks or several outputs: its hooks and vjps see tensors."""
    several = node.outputs > 1
    grad = [None if part is None else wrap(part) for part in data] if several else wrap(data)
    grad = run_prehooks(node.extra, grad)
    if type(node) is AccumulateGrad:
        add_array_to_leaf(node, grad._data)
        return
    for edge, part in zip(node.edges, pull(node, grad, None), strict=False):
        if edge is not None and part is not None:
            deliver_array(arrived, edge, part._data)


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
    grad = fitted(grad, *form_of(node, number))
    if node.outputs > 1:
        slots = arrived.setdefault(node, [None] * node.outputs)
        slots[number] = grad if slots[number] is None else slots[number] + grad
    else:
        present = arrived.get(node)
        arrived[node] = grad if present is None else present + grad


def form_of(node: Node, number: int) -> tuple[tuple[int, ...], np.dtype]:
    """The shape and dtype of an output."""
    return (node.shape[number], node.dtype[number]) if node.outputs > 1 else (node.shape, node.dtype)


def fitted_parts(node: Node, pulled: Sequence[Tensor | None]) -> list[Tensor | None]:
    """What a node hands on, in the forms of those that get it."""
    return [
        None if edge is None or part is None else fitted(part, *form_of(*split_edge(edge)))
        for edge, part in zip(node.edges, pulled, strict=False)
    ]


def fitted(grad: Tensor, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
    """A gradient in the shape and dtype of the value it belongs to: what was broadcast is summed."""
    if grad._form.shape != shape:
        grad = grad.sum_to_size(shape)
    if grad._form.dtype != dtype:
        if grad._form.dtype.kind == "c" and dtype.kind != "c":
            grad = grad.real
        grad = grad.to(OF_NUMPY[dtype])
    return grad


def pull(node: Node, grad: Any, wanted: dict[Node, bool] | None) -> list | tuple:
    """A node's vjp with everything around it: missing gradients of outputs, hooks, anomaly checks."""
    if node.outputs > 1:
        present = next(part for part in grad if part is not None)
        grad = [zeros(node, k, present) if part is None else part for k, part in enumerate(grad)]
    mask = None
    if wanted is not None:
        mask = tuple(edge is not None and wanted[split_edge(edge)[0]] for edge in node.edges)
    if mode.anomaly:
        pulled = pull_with_checks(node, grad, mask)
    elif mode.observer is not None:
        pulled = mode.observer.measure(node.name(), lambda: node.pull(grad, mask))
    elif mode.waiter is not None and is_own(node):
        pulled = mode.waiter.pull(node, grad, mask)
    elif mode.waiter is not None and not mode.waiter.compiled and has_packed(node):
        settle()  # hooks that take values away, as those of checkpoints do, want none to be held
        with at_once():
            pulled = node.pull(grad, mask)
    else:
        pulled = node.pull(grad, mask)
    if node.extra is not None and node.extra.posthooks:
        outputs = tuple(grad) if node.outputs > 1 else (grad,)
        for hook in list(node.extra.posthooks.values()):
            result = hook(tuple(pulled), outputs)
            if result is not None:
                pulled = list(result) if isinstance(result, (tuple, list)) else [result]
    return pulled


def is_own(node: Node) -> bool:
    """Whether only ops are called to pull, on one device: no function of the user's, no hook that gives a saved
    value back."""
    moved = bool(moves) and ref(node) in moves
    return type(node).pull is Node.pull and not has_packed(node) and not moved


def has_packed(node: Node) -> bool:
    return node.saved is not FREED and any(type(x) is Packed for x in node.saved)


def zeros(node: Node, number: int, beside: Tensor) -> Tensor | None:
    """The gradient of an output that received none, on the device of another one's."""
    if node.dtype[number].kind in "iub" or not node.fills_zeros:
        return None
    made = wrap(np.zeros(node.shape[number], node.dtype[number]))
    return made.to(place_of(beside))  # type: ignore[attr-defined]


def run_prehooks(extra: Extra, grad: Any) -> Any:
    """The hooks of tensors, then those of their node."""
    grad = run_tensor_hooks(extra, grad)
    grads = grad if extra.outputs > 1 else [grad]
    for hook in list(extra.prehooks.values()):
        if type(hook) is NodePreHook:
            result = hook.hook(tuple(grads))
            if result is not None:
                grads = list(result) if isinstance(result, (tuple, list)) else [result]
    return grads if extra.outputs > 1 else grads[0]


def run_tensor_hooks(extra: Extra, grad: Any) -> Any:
    grads = list(grad) if extra.outputs > 1 else [grad]
    for hook in list(extra.prehooks.values()):
        if not isinstance(hook, NodePreHook) and grads[hook.number] is not None:
            grads[hook.number] = checked_hook_result(hook.hook(grads[hook.number]), grads[hook.number])
    for keeper in list(extra.keepers.values()):
        if grads[keeper.number] is not None:
            keeper.hook(grads[keeper.number])
    return grads if extra.outputs > 1 else grads[0]


def checked_hook_result(result: Any, grad: Tensor) -> Tensor:
    if result is None:
        return grad
    if not isinstance(result, Tensor):
        rule = f"a gradient hook must return None or a tensor, it returned {type(result).__name__}"
        raise error(TypeError, "register_hook", rule)
    if result._form.shape != grad._form.shape:
        rule = "a gradient hook must not change the gradient's size"
        raise error(RuntimeError, "register_hook", rule, was=grad, returned=result)
    if result._form.dtype != grad._form.dtype:
        rule = "a gradient hook must not change the gradient's type"
        raise error(RuntimeError, "register_hook", rule, was=grad, returned=result)
    return result


def keep_captured(captured: dict, goals: Any, node: Node, grad: Any) -> None:
    for number, part in enumerate(grad if node.outputs > 1 else [grad]):
        if part is not None and (node, number) in goals:
            captured[node, number] = part


def add_to_leaf(node: AccumulateGrad, grad: Tensor, create_graph: bool) -> None:
    """Accumulation as PyTorch does it; under create_graph out of place, so that it can be differentiated."""
    leaf = node.leaf()
    if leaf is None or leaf._edge is None:  # gone, or its gradient is no longer wanted
        return
    if not create_graph and mode.recorder is None and mode.waiter is None and held(grad) is None:
        add_array_to_leaf(node, grad._data.copy())
        return
    if leaf._grad is None:  # memory of its own, since a later backward adds to it in place
        leaf._grad = grad.clone() if create_graph else laid_out_for(leaf, grad)
    elif create_graph:
        leaf._grad = leaf._grad + grad
    else:
        leaf._grad.add_(grad)
    if watch.observer is not None:
        watch.observer.leaf_filled(leaf)
    run_leaf_hooks(node, leaf, grad)


def laid_out_for(leaf: Tensor, grad: Tensor) -> Tensor:
    """A copy of a gradient, in the leaf's own layout."""
    form, like = grad._form, leaf._form
    if form.strides == like.strides or (like.flags.c_contiguous and form.flags.c_contiguous):
        return grad.clone()
    if like.flags.c_contiguous:
        return grad.contiguous()  # type: ignore[attr-defined]
    return grad.clone() if place_of(leaf) is not CPU else wrap(np.empty_like(like)).copy_(grad)


def add_array_to_leaf(node: AccumulateGrad, data: np.ndarray) -> None:
    """In place when `.grad` exists, so that it keeps its identity; else the array becomes it."""
    leaf = node.leaf()
    if leaf is None or leaf._edge is None:  # gone, or its gradient is no longer wanted
        return
    present = leaf._grad
    if present is None:
        leaf._grad = wrap(data if is_unshared(data, leaf._data) else copied(data, leaf._data))
    else:
        np.add(present._data, data, out=present._data)
        cell = cell_of(present)
        cell[0] = tick()
        cell[1] += 1
    if watch.observer is not None:
        watch.observer.filled.append(leaf)
    if node.extra is not None:
        run_leaf_hooks(node, leaf, wrap(data))


def run_leaf_hooks(node: AccumulateGrad, leaf: Tensor, grad: Tensor) -> None:
    if node.extra is not None:
        for hook in list(node.extra.accumulated.values()):
            hook(leaf)
        for hook in list(node.extra.posthooks.values()):
            hook((), (grad,))


def is_unshared(data: np.ndarray, like: np.ndarray) -> bool:
    """Whether an array is nobody else's memory, so that it can be handed over, in the leaf's own layout."""
    return data.base is None and data.strides == like.strides and sys.getrefcount(data) <= UNSHARED


def copied(data: np.ndarray, like: np.ndarray) -> np.ndarray:
    fresh = np.empty_like(like) if like.flags.forc else np.empty(data.shape, data.dtype)
    fresh[...] = data
    return fresh


def _count_references() -> int:
    """How many references `is_unshared` sees to an unshared array; the number differs between Pythons."""

    def check(data: np.ndarray, like: np.ndarray) -> int:
        return sys.getrefcount(data)

    def add(node: Any, data: np.ndarray) -> int:
        return check(data, data) - 1  # the second argument is one more

    data = {0: np.zeros(1)}.pop(0)
    return add(None, data)


UNSHARED = _count_references()


def pull_with_checks(node: Node, grad: Any, mask: tuple | None) -> list | tuple:
    """Anomaly mode: says which forward line the failing or NaN-making vjp belongs to."""
    try:
        pulled = node.pull(grad, mask)
    except Exception as failure:
        if node.place is not None:
            failure.add_note(f"anomaly: the op was recorded at {line_of(node.place)}")
        raise
    if mode.check_nan:
        for number, part in enumerate(pulled):
            if part is not None and part._form.dtype.kind in "fcV" and np.isnan(part._data).any():
                rule = f"Function '{node.name()}' returned nan values in its {number}th output."
                facts = {} if node.place is None else {"recorded": line_of(node.place)}
                raise error(RuntimeError, "detect_anomaly", rule, **facts)
    return pulled
