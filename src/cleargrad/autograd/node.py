"""The graph: a Node per recorded op, edges to the nodes that made its inputs, and the values its vjp needs.

A node keeps nothing alive but those values: it never refers to its own output, and a leaf's node refers to
the leaf weakly, so graphs are freed by reference counting alone. Read next: autograd/walk.py.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.plan import BackwardPlan, VjpCall
from cleargrad.core.address import address
from cleargrad.core.mode import mode, structure
from cleargrad.core.tensor import IN_NO_GRAD, INFERENCE, Tensor, cell_of, tick, value_in, wrap_any
from cleargrad.errors import Place, error, line_of, user_place

moves: set[weakref.ref[Node]] = set()  # nodes that lead from one device to another, for as long as they live
FREED: Any = object()  # stands in `saved` after backward() has let the values go
SAVED = "_saved_"
FIRST, SECOND = (
    ("self", "input", "mat1"),
    ("other", "exponent", "weight", "mat2", "tensor", "target", "index"),
)


class Node:
    """One recorded op. Its class carries the op; its name is PyTorch's, such as MulBackward0."""

    # The fields of every node; doors on the fast path fill them in directly instead of calling `make_node`.
    __slots__ = (
        "__weakref__",  # for whoever asks whether a graph is still alive
        "attrs",  # the op's attributes, or None
        "dtype",
        "edges",  # per operand: the Node (or Output) its gradient goes to, or None
        "extra",  # an Extra for nodes with hooks or several outputs, else None
        "place",  # where in the user's program it was recorded; kept only when something is saved
        "plan",  # which vjps to call with which of the saved values
        "saved",  # the values the vjps ask for
        "shape",  # of the output, which its gradient must have
        "tick",
    )

    fills_zeros = True  # whether the vjp wants zeros for outputs that received no gradient

    # What the walk needs -------------------------------------------------------------------------------

    def pull(self, grad: Any, wanted: tuple | None = None) -> list | tuple:
        """The gradients of the inputs, from the gradient of the output (the vjp of the op)."""
        saved = self.saved
        if saved is FREED:
            raise freed_error(self)
        grads: list = [None] * len(self.edges)
        for step in self.plan.steps:
            index = step.input
            if wanted is not None and index is not None and not wanted[index]:
                continue
            values = [self.unpack(saved[position]) for position in step.positions]
            result = step.vjp(grad, *values, **self.named(step))
            if index is None:
                return result
            grads[index] = result
        return grads

    def named(self, step: VjpCall) -> dict[str, Any]:
        """The keyword arguments of a vjp: attributes of the op, shapes of its operands."""
        found = {name: self.attrs[name] for name in step.attrs}
        for name, operand in step.shapes:
            found[name] = shape_at(self.edges[operand])
        return found

    def unpack(self, value: Any) -> Any:
        """A saved value, checked: its memory must not have changed since it was saved."""
        if isinstance(value, Tensor):
            cell = value._ver
            if cell is not None and cell[0] > self.tick:
                raise stale_error(self, value)
            return value
        if type(value) is tuple:
            if value[1][0] > self.tick:
                raise stale_error(self, value)
            return restore_output(self, value)
        if type(value) is Packed:
            return value.unpack(self)
        return value

    def free(self) -> None:
        """Lets the saved values go; a node that saved nothing can be walked again."""
        if self.saved:
            self.saved = FREED

    # PyTorch's face of a node --------------------------------------------------------------------------

    def name(self) -> str:
        return type(self).__name__

    @property
    def next_functions(self) -> tuple:
        return tuple((None, 0) if edge is None else split_edge(edge) for edge in self.edges)

    @property
    def outputs(self) -> int:
        return 1 if self.extra is None else self.extra.outputs

    @property
    def metadata(self) -> dict:
        return extra_of(self).metadata

    def _sequence_nr(self) -> int:
        return self.tick

    def __getattr__(self, name: str) -> Any:
        """What was saved for backward, under PyTorch's names: `_saved_self`, `_saved_other`, `_saved_result`."""
        if name.startswith(SAVED):
            if self.saved is FREED:
                raise freed_error(self)
            found = saved_under(self, name.removeprefix(SAVED))
            if found is not None:
                return found
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        """`hook(grad_outputs)` may return other gradients for the outputs."""
        return add_hook(extra_of(self).prehooks, NodePreHook(hook))

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """`hook(grad_inputs, grad_outputs)` may return other gradients for the inputs."""
        return add_hook(extra_of(self).posthooks, hook)

    def __call__(self, *grads: Tensor):
        pulled = self.pull(grads[0] if self.outputs == 1 else list(grads))
        return pulled[0] if len(pulled) == 1 else tuple(pulled)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


class Extra:
    """What few nodes have: hooks, several outputs, metadata."""

    __slots__ = ("__weakref__", "accumulated", "keepers", "metadata", "outputs", "posthooks", "prehooks")

    def __init__(self) -> None:
        self.outputs = 1
        self.prehooks: dict[int, NodePreHook | TensorHook] = {}
        self.keepers: dict[int, TensorHook] = {}  # retain_grad: they see what hooks made of a gradient
        self.posthooks: dict[int, Callable] = {}
        self.accumulated: dict[int, Callable] = {}  # of a leaf: they run when its `.grad` was added to
        self.metadata: dict = {}


def saved_under(node: Node, name: str) -> Any:
    """A saved operand, output or attribute of the op; None if there is none."""
    if node.attrs and name in node.attrs:
        return node.attrs[name]
    operands = len(node.edges)
    places = {**dict.fromkeys(FIRST, 0), **dict.fromkeys(SECOND, 1), "result": operands}
    place = places.get(name)
    if place is None or place >= len(node.saved) or (name != "result" and place >= operands):
        return None
    return node.unpack(node.saved[place])


def extra_of(node: Node) -> Extra:
    if node.extra is None:
        node.extra = Extra()
        if type(node) is AccumulateGrad:
            AccumulateGrad.hooked = True
    return node.extra


def make_node(
    kind: type[Node], edges: tuple, saved: tuple, plan: BackwardPlan, shape: Any, dtype: Any
) -> Node:
    node = kind()
    node.edges = edges
    node.saved = saved
    node.plan = plan
    node.shape = shape
    node.dtype = dtype
    node.tick = tick()
    node.attrs = node.place = node.extra = None
    return node


class AccumulateGrad(Node):
    """The node of a leaf: adds what arrives to `.grad`."""

    __slots__ = ("leaf",)
    hooked = False  # whether any leaf ever had a hook; then the walk must serve leaves once they are ready

    def __init__(self, leaf: Tensor):
        self.edges = ()
        self.saved = ()
        self.plan = self.attrs = self.place = self.extra = None
        self.leaf = weakref.ref(leaf)
        self.shape = leaf._form.shape
        self.dtype = leaf._form.dtype
        self.tick = tick()

    @property
    def variable(self) -> Tensor | None:
        return self.leaf()

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"


class Output:
    """An edge to one output of a node that has several; the first output uses the node itself."""

    __slots__ = ("node", "number")
    dtype = shape = None  # no array has these, so that the walk takes the careful way

    def __init__(self, node: Node, number: int):
        self.node = node
        self.number = number


def split_edge(edge: Any) -> tuple[Node, int]:
    return (edge.node, edge.number) if type(edge) is Output else (edge, 0)


def shape_at(edge: Node | Output) -> tuple[int, ...]:
    """The shape of the tensor behind an edge."""
    node, number = split_edge(edge)
    return node.shape[number] if node.outputs > 1 else node.shape


def saved_output(out: Tensor, number: int = 0) -> tuple:
    """An op's own output as it is saved: bare memory, since the tensor would make a cycle with its node."""
    return value_in(out), cell_of(out), number


def restore_output(node: Node, saved: tuple) -> Tensor:
    data, ver, number = saved
    if isinstance(data, Tensor):  # a twin of the output, whose value waited when it was saved
        out = of_twin(data)
        data = out._form
    else:
        out = wrap_any(data)
        data = out._form
    if data.dtype.kind in "fcV":  # indices that an op returned have no gradient
        out._edge = node if number == 0 else Output(node, number)
    out._ver = ver
    return out


def of_twin(twin: Tensor) -> Tensor:
    """A tensor of its own for the value of a twin."""
    waits = getattr(twin, "_wait", None)
    return waits.twin(twin) if hasattr(waits, "twin") else wrap_any(value_in(twin))  # type: ignore[union-attr]


class Packed:
    """A value that saved-tensor hooks took away; `unpack` asks for it back."""

    __slots__ = ("edge", "hook", "value")

    def __init__(self, value: Any, hook: Callable, edge: Any):
        self.value = value
        self.hook = hook
        self.edge = edge

    def unpack(self, node: Node) -> Tensor:
        tensor = self.hook(self.value)
        if not isinstance(tensor, Tensor):
            rule = f"the unpack hook must return a tensor, it returned {type(tensor).__name__}"
            raise error(TypeError, "saved_tensors_hooks", rule)
        edge = node if self.edge == "output" else self.edge
        if tensor._edge is edge:
            return tensor
        return wrap_any(value_in(tensor), edge)


def pack(values: tuple) -> tuple:
    """Hands tensors about to be saved to the innermost saved-tensor hook."""
    pack_hook, unpack_hook = mode.saved_hooks[-1]  # type: ignore[index]
    packed = []
    for value in values:
        if isinstance(value, Tensor):
            edge, bare = value._edge, value.detach() if value._edge is not None else value
        elif type(value) is tuple:
            edge, bare = "output", wrap_any(value[0])
        else:
            packed.append(value)
            continue
        before = mode.set(saved_hooks=())
        try:
            with_hook = Packed(pack_hook(bare), unpack_hook, edge)
        finally:
            mode.set(**before)
        packed.append(with_hook)
    return tuple(packed)


# Edges of tensors ------------------------------------------------------------------------------------------


def edge_of(tensor: Tensor) -> Node | Output | None:
    """Where the gradient of a tensor goes; a view whose base was written since gets a fresh edge."""
    if tensor._base is not None and tensor._ver[0] > tensor._seen:
        refresh(tensor)
    return tensor._edge


def refresh(view: Tensor) -> None:
    """Gives a view the edge that follows from its base's present history."""
    base = view._base
    view._seen = view._ver[0]
    if base._edge is not None and view._caution is not IN_NO_GRAD:
        before = view._edge
        settings = mode.set(grad=True)  # asked for without recording, it is still a history
        try:
            view._edge = base.window(**geometry(view, base))._edge
        finally:
            mode.set(**settings)
        move_keepers(before, view._edge)


def move_keepers(before: Node | Output | None, after: Node | Output | None) -> None:
    """retain_grad follows its tensor to the node of the value that was written into it."""
    if before is None or after is None:
        return
    node, number = split_edge(before)
    if node.extra is None or not node.extra.keepers:
        return
    target, new_number = split_edge(after)
    for key, keeper in list(node.extra.keepers.items()):
        if keeper.number == number:
            del node.extra.keepers[key]
            extra_of(target).keepers[key] = TensorHook(keeper.hook, new_number)


def geometry(view: Tensor, base: Tensor) -> dict[str, Any]:
    """Where a view lies within its base: attributes for as_strided and as_strided_scatter, in elements."""
    return {
        "size": view._form.shape,
        "stride": strides_of(view._form),
        "offset": (address(view._form) - address(base._form)) // view._form.itemsize,
        "x_stride": strides_of(base._form),
    }


def strides_of(data: np.ndarray) -> tuple[int, ...]:
    size = data.itemsize
    return tuple(step // size for step in data.strides)


def make_leaf(tensor: Tensor) -> None:
    """Marks a tensor as one whose gradient is wanted."""
    tensor._edge = AccumulateGrad(tensor)


def is_leaf(tensor: Tensor) -> bool:
    edge = edge_of(tensor)
    return edge is None or type(edge) is AccumulateGrad


# Hooks -----------------------------------------------------------------------------------------------------


def _reference(dictionary: dict) -> Callable[[], dict | None]:
    """A weak reference where there can be one: plain dictionaries have none."""
    return (lambda: dictionary) if type(dictionary) is dict else weakref.ref(dictionary)


class RemovableHandle:
    """Removes a hook again; also usable as a context manager."""

    _next_id = 0

    def __init__(self, hooks: dict, *, extra_dict: Any = None):
        extra = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self.dictionaries = [_reference(dictionary) for dictionary in (hooks, *extra)]
        self.id = RemovableHandle._next_id
        RemovableHandle._next_id += 1

    def remove(self) -> None:
        structure.version += 1
        for reference in self.dictionaries:
            dictionary = reference()
            if dictionary is not None:
                dictionary.pop(self.id, None)

    def __getstate__(self) -> tuple:
        return [reference() for reference in self.dictionaries], self.id

    def __setstate__(self, state: tuple) -> None:
        dictionaries, self.id = state
        self.dictionaries = [_reference({} if found is None else found) for found in dictionaries]
        RemovableHandle._next_id = max(RemovableHandle._next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class NodePreHook:
    """A prehook on all outputs of a node, as opposed to a tensor's hook on one of them."""

    __slots__ = ("hook",)

    def __init__(self, hook: Callable):
        self.hook = hook


class TensorHook:
    """A tensor's hook: sees and may replace the gradient of one output."""

    __slots__ = ("hook", "number")

    def __init__(self, hook: Callable, number: int):
        self.hook = hook
        self.number = number


def add_hook(hooks: dict, hook: Any) -> RemovableHandle:
    structure.version += 1
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


# Errors ----------------------------------------------------------------------------------------------------


PASSES: deque[tuple[Place | None, int, Any]] = deque(maxlen=64)  # that freed: where, when, from which node


def note_pass(root: Tensor) -> None:
    """Remembers where a backward pass came from that has let saved values go."""
    edge = root._edge
    if edge is not None:
        PASSES.append((user_place(), tick(), weakref.ref(split_edge(edge)[0])))


def freed_by(node: Node) -> Place | None:
    """Where the pass came from that let a node's values go: the first that still can be seen to lead to it, or
    else, since a loss is often gone by then, the last one after the node was made."""
    for place, _, reference in PASSES:
        root = reference()
        if root is not None and leads_to(root, node):
            return place
    return next((place for place, when, _ in reversed(PASSES) if when > node.tick), None)


def leads_to(root: Node, goal: Node) -> bool:
    seen, waiting = {root}, [root]
    while waiting:
        node = waiting.pop()
        if node is goal:
            return True
        for edge in node.edges:
            if edge is not None and (inner := split_edge(edge)[0]) not in seen and inner.tick >= goal.tick:
                seen.add(inner)
                waiting.append(inner)
    return False


def freed_error(node: Node) -> Exception:
    rule = (
        "trying to backward through the graph a second time, or to read saved tensors after they were freed; "
        "backward() frees them unless retain_graph=True"
    )
    facts = {"node": node.name()}
    if node.place is not None:
        facts["recorded"] = line_of(node.place)
    first = freed_by(node)
    if first is not None:
        facts["first backward"] = line_of(first)
    fix = "call the first backward() with retain_graph=True, or compute the loss again"
    return error(RuntimeError, "backward", rule, fix=fix, **facts)


def inference_error(node: Node) -> Exception:
    rule = "Inference tensors cannot be saved for backward."
    facts = {"needed by": node.name()}
    if node.place is not None:
        facts["saved"] = line_of(node.place)
    fix = "make a clone() outside inference_mode and use that, or compute it under no_grad instead"
    return error(RuntimeError, "backward", rule, fix=fix, **facts)


def stale_error(node: Node, value: Tensor | tuple) -> Exception:
    data, cell = value[:2] if isinstance(value, tuple) else (value._form, value._ver)
    if cell[0] == INFERENCE:
        return inference_error(node)
    rule = (
        "one of the variables needed for gradient computation has been modified by an inplace operation "
        "after it was saved"
    )
    facts = {"needed by": node.name(), "tensor": f"{data.shape} {data.dtype}, version {cell[1]} now"}
    if node.place is not None:
        facts["saved"] = line_of(node.place)
    if cell[2] is not None:
        facts["changed"] = line_of(cell[2])
    fix = "use the out-of-place form of the later line, or write to a clone()"
    return error(RuntimeError, "backward", rule, fix=fix, **facts)
