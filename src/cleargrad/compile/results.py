"""Results of a recorded call: where each part comes from at a later one, and which parts share memory.

A part may be an argument, a gradient, a tensor that was there before, or one the call has made. Those that look
into the same memory do so again: the memory's owner is found first, perhaps unseen by the user, and the others
are views or detached aliases of it. Read next: compile/differentiable.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.autograd.node import (
    FREED,
    AccumulateGrad,
    Node,
    edge_of,
    geometry,
    make_leaf,
    make_node,
    split_edge,
    strides_of,
)
from cleargrad.compile.differentiable import graph_behind, laid_out, own_strides
from cleargrad.compile.pending import Pending
from cleargrad.compile.runner import Find
from cleargrad.compile.tracer import Tracer
from cleargrad.core.mode import mode
from cleargrad.core.tensor import IN_NO_GRAD, Tensor, mark_inference, wrap
from cleargrad.interop import number_of


class Results:
    """Finders for all parts of a result, in the order in which they can be found."""

    def __init__(self, tracer: Tracer, given: list[Tensor], parts: list) -> None:
        self.tracer = tracer
        self.given = given
        self.parts = list(parts)  # owners of memory that the user does not see come behind
        self.own: dict[int, Any] = {}  # parts that are outputs of the program, by position
        self.views: dict[
            int, tuple[int | None, Find | None]
        ] = {}  # by position: of which part, or of what else
        self.order: list[int] = []
        self.gradients = [look.leaf._grad for look in tracer.grads.values() if look.leaf._grad is not None]
        tensors = [part for part in parts if isinstance(part, Tensor)]
        looked_at = {id(tensor): tensor for tensor in [*tensors, *self.gradients]}
        self.sharing = Counter(id(tracer.owner(tensor)._data) for tensor in looked_at.values())
        self.roots: dict[
            int, list[Tensor]
        ] = {}  # by memory: tensors that are no views, but have parts as views
        for tensor in looked_at.values():
            root = tensor if tensor._base is None else tensor._base
            found = self.roots.setdefault(id(tracer.owner(tensor)._data), [])
            if not any(root is other for other in found):
                found.append(root)
        for position in range(len(parts)):
            self.place(position)

        tensors = [part for part in self.own.values() if isinstance(part, Tensor)]
        self.live = [tensor for tensor in tensors if is_live(tensor)]  # backward() could start from them
        if self.live and not mode.grad:
            tracer.refuse("it records gradients of its own where they are switched off")

    # Which way each part goes ------------------------------------------------------------------------------

    def place(self, position: int) -> None:
        """Decides how a part is found; what it is made of comes before it."""
        if position in self.order:
            return
        part = self.parts[position]
        if isinstance(part, Pending):
            self.own[position] = part
        elif not self.is_there(part):
            self.place_made(position, part)
        self.order.append(position)

    def is_there(self, part: Tensor) -> bool:
        """Whether it is an argument, a gradient, or a tensor from before."""
        known = any(part is tensor for tensor in (*self.given, *self.gradients))
        return known or id(part) in self.tracer.tensors

    def place_made(self, position: int, part: Tensor) -> None:
        tracer = self.tracer
        if type(part._edge) is AccumulateGrad and part._grad is not None:
            tracer.refuse("a leaf that it has made has a gradient")
        if part.retains_grad:
            tracer.refuse("retain_grad() was called on a result")
        owner = tracer.owner(part)
        outside = self.outside_behind(part, owner)
        if outside is not None:
            tensor, find = outside
            self.check_history(part, tensor)
            self.views[position] = (None, find)
        elif self.sharing[id(owner._data)] < 2:
            self.own[position] = part
        else:
            self.place_shared(position, part, self.roots[id(owner._data)])

    def outside_behind(self, part: Tensor, owner: Tensor) -> tuple[Tensor, Find] | None:
        """An argument or tensor from before whose memory a part looks into."""
        for number, tensor in enumerate(self.given):
            if self.tracer.owner(tensor) is owner:
                return tensor, argument_at(number)
        for tensor in (part._base, owner):
            if tensor is not None and id(tensor) in self.tracer.tensors:
                return tensor, always(tensor)
        return None

    def place_shared(self, position: int, part: Tensor, roots: list[Tensor]) -> None:
        """Several parts in memory that the call has made: one root is an output, the rest are made of it."""
        first = main_root(roots)
        if first is None:
            self.tracer.refuse("results share memory, and more than one of them has a history")
            return
        if part is first:
            self.own[position] = part
            if own_strides(part._data) is None and not part._data.flags.c_contiguous:
                self.tracer.refuse("results share memory that has gaps")
            return
        root = part if part._base is None else part._base
        source = first if part is root or root is first else root
        self.check_history(part, source)
        where = self.position_of(source)
        self.place(where)
        self.views[position] = (where, None)

    def position_of(self, tensor: Tensor) -> int:
        for position, part in enumerate(self.parts):
            if part is tensor:
                return position
        self.parts.append(tensor)
        return len(self.parts) - 1

    def check_history(self, part: Tensor, source: Tensor) -> None:
        """A view has the history of what it looks into; an alias of it has none, or is a leaf."""
        if part._data.dtype != source._data.dtype:
            self.tracer.refuse("a result has the memory of another one in a different dtype")
        walked = edge_of(part) is not None and type(part._edge) is not AccumulateGrad
        left_behind = edge_of(source) is None  # by detach_(), which earlier views do not follow
        if walked and (left_behind or not same_base(part, source)):
            self.tracer.refuse("a result shares memory with a tensor, but not its history")

    # Finding them ------------------------------------------------------------------------------------------

    def finders(
        self, output: Callable[[Any], int], place_of: Callable[[Tensor], Find], live: Callable[[Tensor], int]
    ) -> list[tuple[int, Find]]:
        """Positions and finders; `live` says which result of the differentiable node a part is."""
        return [(position, self.finder(position, output, place_of, live)) for position in self.order]

    def finder(self, position: int, output: Callable, place_of: Callable, live: Callable) -> Find:
        part = self.parts[position]
        if position in self.views:
            return self.view_finder(position, part)
        if position in self.own:
            return self.own_finder(part, output, live)
        for number, tensor in enumerate(self.given):
            if tensor is part:
                return argument_at(number)
        for look in self.tracer.grads.values():
            if look.leaf._grad is part:
                leaf = place_of(look.leaf)
                return lambda found: leaf(found[0])._grad
        return always(part)

    def own_finder(self, part: Any, output: Callable, live: Callable) -> Find:
        if isinstance(part, Pending):
            number = output(part.symbol)
            return lambda found: number_of(found[1][number])
        if any(part is tensor for tensor in self.live):
            number = live(part)
            return lambda found: found[2][number]
        number = output(self.tracer.value(part))
        if part._inference:
            return lambda found: inference_tensor(found[1][number])
        strides = own_strides(part._data)
        if type(part._edge) is AccumulateGrad:
            return lambda found: new_leaf(laid_out(found[1][number], strides))
        node = spent_node(part)
        if strides is None:
            return lambda found: wrap(found[1][number], node)
        return lambda found: wrap(laid_out(found[1][number], strides), node)

    def view_finder(self, position: int, part: Tensor) -> Find:
        number, find = self.views[position]
        if number is not None:
            source = self.parts[number]
            find = lambda found: found[3][number]  # noqa: E731
        else:
            source = self.outside_behind(part, self.tracer.owner(part))[0]  # type: ignore[index]
        assert find is not None
        where = geometry(part, source)
        del where["x_stride"]  # along dimensions of one element, strides may be others than recorded
        alias = not same_base(part, source)
        leaf = type(part._edge) is AccumulateGrad
        caution = part._caution if part._base is not None else None
        recorded = mode.grad and not alias and caution is not IN_NO_GRAD

        def seen(found: tuple) -> Tensor:
            tensor = find(found)
            before = mode.turn(recorded)
            try:
                source = tensor.detach() if alias else tensor
                view = source.window(**where, x_stride=strides_of(source._data))
            finally:
                mode.turn(before)
            if caution is not None:
                view._caution = caution
            if leaf:
                make_leaf(view)
            return view

        return seen


def argument_at(number: int) -> Find:
    return lambda found: found[0][number]


def always(tensor: Tensor) -> Find:
    return lambda found: tensor


def main_root(roots: list[Tensor]) -> Tensor | None:
    """The one that has a history, or else the first; None when several have one."""
    linked = [root for root in roots if root._edge is not None and type(root._edge) is not AccumulateGrad]
    if len(linked) > 1:
        return None
    whole = max(root._data.size for root in roots)
    first = linked[0] if linked else next(root for root in roots if root._data.size == whole)
    return first if first._data.size == whole else None


def same_base(part: Tensor, source: Tensor) -> bool:
    """Whether a part is a view of the source, or of what that is a view of itself."""
    base = part._base
    return base is not None and (base is source or base is source._base)


# Tensors of their own --------------------------------------------------------------------------------------


def new_leaf(array: np.ndarray) -> Tensor:
    tensor = wrap(array)
    make_leaf(tensor)
    return tensor


def inference_tensor(array: np.ndarray) -> Tensor:
    tensor = wrap(array)
    mark_inference(tensor)
    return tensor


# Graphs of results -----------------------------------------------------------------------------------------


def saved_by(node: Node) -> list:
    saved = node.saved
    return [] if saved is FREED else [value for value in saved or () if isinstance(value, Tensor)]


def is_live(tensor: Tensor) -> bool:
    """Whether backward() could start from a result: it has a history of which nothing was freed."""
    edge = edge_of(tensor)
    if edge is None or type(edge) is AccumulateGrad:
        return False
    return all(node.saved is not FREED for node in graph_behind([tensor]))


def spent_node(tensor: Any) -> Node | None:
    """A node like that of a result whose graph backward() has freed: it prints alike and cannot be walked."""
    if tensor._edge is None or type(tensor._edge) is AccumulateGrad:
        return None
    node, _ = split_edge(tensor._edge)
    spent = make_node(type(node), (), FREED, node.plan, tensor._data.shape, tensor._data.dtype)
    spent.place = node.place
    return spent
