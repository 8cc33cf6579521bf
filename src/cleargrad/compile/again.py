"""The short way of a call that the trace knows: code written for its pattern matches it and makes its result.

Most calls that wait come as they came the last time, and then Python's time is all they cost. What has to be
compared follows from the kinds of a step's operands, and what has to be made from which of them need gradients. So
a function is written for each such pattern, without loops and without what cannot happen in it, and every step of
the pattern has a copy with its own constants. It does what `Step.takes` and `apply.link` do. Whatever is unusual is
left to them: the function then says None, and has done nothing. Read next: compile/known_pass.py.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from cleargrad.autograd.node import AccumulateGrad, Extra, Output
from cleargrad.compile.sides import HERE, side_at
from cleargrad.compile.traces import FREE, Made, Source, Step
from cleargrad.core.device import Held
from cleargrad.core.tensor import IN_NO_GRAD, Tensor, cell_of, is_lent, lent, new, room_of, tick, value_of
from cleargrad.errors import user_frame
from cleargrad.ops.apply import SEVERAL
from cleargrad.ops.op import NO_GRAD

# Kinds of operands: a tensor from outside that comes first here, one that came before, what an earlier step has
# made, nothing, a float that is an input, anything else that is no tensor.
# The first may lie on another device.
NEW, APART, KNOWN, MADE, NONE, NUMBER, OTHER = "new", "apart", "known", "made", "none", "number", "other"
SOURCES = (NEW, APART)
TENSORS = (NEW, APART, KNOWN, MADE)


def way_of(step: Step, operands: Sequence, grad: bool) -> Callable:
    """The function for a step: given a run, operands and attributes, what the call gives, or None."""
    act: Any = step.act
    op, forms = act.op, step.forms
    kinds = tuple(map(kind_of, step.wants))
    edges = tuple(
        [kind in TENSORS and getattr(x, "_edge", None) is not None for kind, x in zip(kinds, operands)]
    )
    traced = grad and op.vjp is not NO_GRAD
    smooth = [op.view or form.dtype.kind in "fcV" for form in forms]
    several = None if act.single else tuple(smooth[k] and k not in op.without_grad for k in range(len(forms)))
    recorded = traced and True in edges and (several is not None or smooth[0])
    plan = op.plan(edges) if recorded else None
    keeps = () if plan is None or (op.view and act.single) else (*plan.keeps, plan.keeps_output)
    if several is not None and recorded and (not several[0] or (op.view and True in keeps)):
        return seldom
    make = writing(
        kinds, edges, bool(act.attrs), act.text is not None, grad, traced, op.view, recorded, keeps, several
    )
    history = [edge for kind, edge in zip(kinds, edges) if kind in SOURCES]
    held = sum([want.nbytes for want, edge in zip(step.wants, edges) if type(want) is Source and not edge])
    return make(
        step, step.wants, act.attrs, act.kinds, act.text, forms, op.node, plan, [*history, plan], held
    )


def seldom(run: Any, operands: Sequence, attrs: dict) -> None:
    """The way of calls that have no short one."""


def kind_of(want: Any) -> str:
    if type(want) is Source:
        return NEW if want.side is HERE else APART
    if type(want) is Made:
        return MADE
    if type(want) is int:
        return KNOWN
    if want is FREE:
        return NUMBER
    return NONE if want.value is None else OTHER


@cache
def writing(
    kinds: tuple[str, ...],
    edges: tuple[bool, ...],
    attrs: bool,
    delicate: bool,
    grad: bool,
    traced: bool,
    view: bool,
    recorded: bool,
    keeps: tuple[bool, ...],
    several: tuple[bool, ...] | None,
) -> Callable:
    """What makes functions for steps of a pattern; `several` says of each of a tuple of results whether a gradient
    comes to it."""
    lines = ["def make(step, wants, attrs_, kinds, text, forms, kind, plan, plans, held):"]
    constants = [f"    w{k} = wants[{k}]" for k, found in enumerate(kinds) if found not in (NONE, NUMBER)]
    constants += ["    first, form = step.first, forms[0]"]
    if several is None or len(several) == 1:
        constants += ["    shape, dtype = form.shape, form.dtype"]
    else:
        constants += ["    shape, dtype = tuple([f.shape for f in forms]), tuple([f.dtype for f in forms])"]
    if several is not None:
        constants += [f"    form{k} = forms[{k}]" for k in range(len(several))]
    body = matching(kinds, edges, attrs, delicate, grad, view) + taking(kinds)
    if several is not None:
        body += making_several(kinds, grad, view, recorded, keeps, several)
    else:
        body += seeing(traced, recorded) if view else making(kinds, recorded, keeps)
    lines += [*constants, "    def again(run, operands, attrs):", *[" " * 8 + line for line in body]]
    lines += ["    return again"]
    scope: dict[str, Any] = dict(NAMES)
    exec(
        compile("\n".join(lines), __file__, "exec"), scope
    )  # in this file's name, it is no code of the user's
    return scope["make"]


# What the written lines call by name.
NAMES = {
    "AccumulateGrad": AccumulateGrad,
    "Extra": Extra,
    "Held": Held,
    "IN_NO_GRAD": IN_NO_GRAD,
    "Output": Output,
    "SEVERAL": SEVERAL,
    "Tensor": Tensor,
    "cell_of": cell_of,
    "frame_at": sys._getframe,
    "is_lent": is_lent,
    "lent": lent,
    "new": new,
    "ref": weakref.ref,
    "room_of": room_of,
    "side_at": side_at,
    "tick": tick,
    "user_frame": user_frame,
    "value_of": value_of,
}


def matching(
    kinds: tuple[str, ...], edges: tuple[bool, ...], attrs: bool, delicate: bool, grad: bool, view: bool
) -> list[str]:
    """Lines that end with None where a call is another one."""
    names = "".join([f"x{k}, " for k in range(len(kinds))])
    lines = [f"if len(operands) != {len(kinds)}: return None"]
    lines += [f"{names}= operands"] if kinds else []
    if attrs:
        lines += ["if attrs != attrs_ or [*map(type, attrs.values())] != kinds: return None"]
        lines += ["if repr(attrs) != text: return None"] if delicate else []
    else:
        lines += ["if attrs: return None"]
    lines += ["known = run.known"]
    sources: list[str] = []
    for k, (kind, edge) in enumerate(zip(kinds, edges)):
        x = f"x{k}"
        if kind == MADE:
            lines += [f"if {x}._wait is not run or {x}._slot != w{k}: return None"]
        elif kind == KNOWN:
            lines += [f"if known.get(id({x})) != w{k}: return None"]
        elif kind == NONE:
            lines += [f"if {x} is not None: return None"]
        elif kind == NUMBER:
            lines += [f"if type({x}) is not float: return None"]
        elif kind == OTHER:
            lines += [f"if not w{k}.fits({x}): return None"]
        else:
            if kind == APART:
                lines += [
                    f"h, side = {x}._wait, w{k}.side",
                    "if type(h) is not Held: return None",
                    "if h.place is not side.place and side_at(h) is not side: return None",
                ]
            lines += [
                f"d = value_of({x})" if kind == NEW else f"d = {x}._form",
                f"if id({x}) in known or (d is not w{k}.last() and not w{k}.fits(d)): return None",
            ]
            if kind == NEW:
                lines += [f"if (d.base is not None or id(d) in lent) and is_lent({x}): return None"]
            lines += [f"if {x} is {other}: return None" for other in sources]
            sources.append(x)
        if kind in TENSORS:
            lines += [f"e{k} = {x}._edge"]
            there = f"type(e{k}) is AccumulateGrad" if kind in SOURCES else f"e{k} is not None"
            lines += [
                f"if not ({there if edge else f'e{k} is None'}):",
                "    step.again = [None, None]",
                "    return None",
            ]
            if grad:  # the history of a view whose memory has changed takes calls of its own, before this one
                lines += [f"if {x}._base is not None and {x}._ver[0] > {x}._seen: return None"]
    if grad and any(kind in TENSORS for kind in kinds):
        lines += ["if run.written and any(map(run.is_changed_leaf, operands)): return None"]
    if view and not grad:
        lines += ["if x0._base is not None: return None"]
    inner = ["    " + line for line in lines]
    # No tensor, one that waits for somebody else, attributes that cannot be compared.
    return [
        "try:",
        *inner,
        "except (AttributeError, TypeError, ValueError):",
        "    return None",
        "tensors = run.tensors",
    ]


def taking(kinds: tuple[str, ...]) -> list[str]:
    """Lines that note operands, and the step."""
    new_ones = [k for k, kind in enumerate(kinds) if kind in SOURCES]
    lines = []
    for place, k in enumerate(new_ones):
        lines += [f"known[id(x{k})] = first + {place}", f"tensors.append(x{k})"]
    lines += ["run.held += held"] if new_ones else []
    lines += [f"run.numbers.append(x{k})" for k, kind in enumerate(kinds) if kind == NUMBER]
    return [*lines, "run.at = step", "run.steps.append(step)"]


START = [
    "out = new(Tensor)",
    "out._form = form",
    "out._grad = out._edge = None",
    "out._wait = run",
    "out._slot = slot = len(tensors)",
]
END = ["run.plans += plans", "run.made.append((slot, ref(out)))", "tensors.append(None)", "return out"]


def making(kinds: tuple[str, ...], recorded: bool, keeps: tuple[bool, ...]) -> list[str]:
    """Lines that make the result, which is no view."""
    lines = [*START, "out._ver = out._base = None"]
    if recorded:
        *kept, output = keeps
        saved = [f"x{k}" if keep else "None" for k, keep in enumerate(kept[: len(kinds)])]
        if output:
            lines += ["cell = out._ver = [0, 0, None, None]"]
            saved += ["(run.twin(out), cell, 0)"]
        lines += node_lines(kinds, saved if any(kept) else [])
        if any(kept):
            lines += PLACE
    return lines + END


def seeing(traced: bool, recorded: bool) -> list[str]:
    """Lines that make the result, which is a view of what waits."""
    caution = "None if base is None else x0._caution" if traced else "IN_NO_GRAD"
    lines = [
        *START,
        "version = out._ver = cell_of(x0)",
        "out._seen, base = version[0], x0._base",
        "out._base = x0 if base is None else base",
        f"out._caution = {caution}",
        "(version[3] or room_of(x0)).add(out)",
    ]
    return lines + (node_lines((MADE,), []) if recorded else []) + END


def making_several(
    kinds: tuple[str, ...],
    grad: bool,
    view: bool,
    recorded: bool,
    keeps: tuple[bool, ...],
    several: tuple[bool, ...],
) -> list[str]:
    """Lines that make a tuple of results, which are views of what waits or no views."""
    lines = ["slot = len(tensors)"]
    if view:
        lines += ["version, base = cell_of(x0), x0._base", "whole = x0 if base is None else base"]
        lines += ["room = version[3] or room_of(x0)"]
    *kept, output = keeps or (False,)
    saved = [f"x{k}" if keep else "None" for k, keep in enumerate(kept[: len(kinds)])]
    for k in range(len(several)):
        out = f"out{k}"
        lines += [
            f"{out} = new(Tensor)",
            f"{out}._form, {out}._wait, {out}._slot = form{k}, run, slot + {k}",
            f"{out}._grad = {out}._edge = None",
        ]
        if view:
            lines += [
                f"{out}._ver, {out}._seen, {out}._base = version, version[0], whole",
                f"{out}._caution = {'SEVERAL' if grad else 'IN_NO_GRAD'}",
                f"room.add({out})",
            ]
        else:
            lines += [f"{out}._ver = {out}._base = None"]
        if output:
            keep = kept[len(kinds) + k]
            lines += [f"cell{k} = {out}._ver = [0, 0, None, None]"] if keep else []
            saved += [f"(run.twin({out}), cell{k}, {k})" if keep else "None"]
    if recorded:
        first, *others = node_lines((MADE,) if view else kinds, saved if any(kept) else [])
        lines += [first.replace("out.", "out0."), *others]
        if len(several) > 1:
            lines += ["node.extra = extra = Extra()", f"extra.outputs = {len(several)}"]
        lines += [f"out{k}._edge = Output(node, {k})" for k, smooth in enumerate(several) if smooth and k]
        if any(kept):
            lines += PLACE
    lines += ["run.plans += plans"]
    lines += [f"run.made.append((slot + {k}, ref(out{k})))" for k in range(len(several))]
    outs = "".join([f"out{k}, " for k in range(len(several))])
    return [*lines, f"tensors += [None] * {len(several)}", f"return ({outs})"]


PLACE = [
    "frame = user_frame(frame_at(2))",
    "node.place = None if frame is None else (frame.f_code, frame.f_lasti)",
]


def node_lines(kinds: tuple[str, ...], saved: list[str]) -> list[str]:
    """Lines that make the result's node."""
    edges = "".join([f"e{k}, " if kind in TENSORS else "None, " for k, kind in enumerate(kinds)])
    return [
        "out._edge = node = new(kind)",
        f"node.edges, node.plan, node.tick = ({edges}), plan, tick()",
        "node.shape, node.dtype = shape, dtype",
        "node.attrs = attrs or None",
        "node.extra = node.place = None",
        f"node.saved = ({''.join([each + ', ' for each in saved])})",
        "run.nodes.append(ref(node))",
    ]
