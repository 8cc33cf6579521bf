"""Steps of many operands, such as an optimizer's: whether these are the same tensors in the same memory as before.

Hundreds of parameters, gradients and states would be looked at one by one, though hardly any of them is ever
another one. Here all of a kind are compared by a few calls over lists. Tensors and memory from outside are known by
their ids, and none of them is kept alive for that: when the first of them goes, nothing is known any more, so no id
can be somebody else's. Read next: compile/acts.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import is_, itemgetter
from typing import Any

from cleargrad.autograd.node import AccumulateGrad
from cleargrad.compile.sides import HERE, Here
from cleargrad.core.device import Held
from cleargrad.core.tensor import Tensor, lent, owner_of, value_of

MANY = 8  # operands, from which on it is worth the trouble
CALM = 1 << 10  # steps at most, before what has changed once more is noted again

form_of = Tensor.__dict__["_form"].__get__
wait_of = Tensor.__dict__["_wait"].__get__
slot_of = Tensor.__dict__["_slot"].__get__
edge_of = Tensor.__dict__["_edge"].__get__


class Same:
    """What the operands of a step were when it was taken last."""

    def __init__(self, side: Here, made: dict, known: dict, new: dict, fixed: dict) -> None:
        """Operands by their position: slots, but for `fixed` ones, which say what fits."""
        self.side, self.fixed = side, fixed
        self.made, self.made_slots = picking(made), [*made.values()]
        self.known, self.known_slots = picking(known), [*known.values()]
        self.new, self.new_slots = picking(new), [*new.values()]
        self.outside = picking([*known, *new])
        self.alive: list[bool] = []  # empty as soon as one of the tensors, or of their memory, is gone
        self.references: list[weakref.ref] = []
        self.calm = self.rest = 1  # how many steps are taken slowly before the next are noted

    def note(self, operands: Sequence, copied: Sequence) -> None:
        """These are the operands of a step that has just been taken."""
        self.rest -= 1
        if self.rest:
            return
        self.rest = self.calm = min(2 * self.calm, CALM)
        outside = self.outside(operands)
        forms = [x._form for x in outside]
        owners = [owner_of(form) for form in forms]
        self.owners = frozenset(map(id, owners))
        if copied or not lent.keys().isdisjoint(self.owners):
            return
        self.ids, self.forms = [*map(id, outside)], [*map(id, forms)]
        new = self.new(operands)
        self.edges = [*map(type, map(edge_of, new))]
        self.plans = [x._edge is not None for x in new]
        passing = [x for x in new if type(x._edge) is not AccumulateGrad]
        self.held = sum([x._form.nbytes for x in passing])
        self.plain = all(x._edge is None for x in passing)
        self.alive = alive = [True]

        def forget(_: Any) -> None:
            alive.clear()

        self.references = [weakref.ref(each, forget) for each in (*outside, *forms)]

    def takes(self, operands: Sequence, run: Any) -> bool:
        """Whether these are the same operands; if so, the new ones have their slots."""
        if not self.alive:
            return False
        known = run.known
        try:
            outside, new = self.outside(operands), self.new(operands)
            if [*map(id, outside)] != self.ids or [*map(id, map(form_of, outside))] != self.forms:
                return False
            made = self.made(operands)
            if [*map(slot_of, made)] != self.made_slots or not all(map(is_, map(wait_of, made), repeat(run))):
                return False
            if [*map(known.get, map(id, self.known(operands)))] != self.known_slots:
                return False
            if [*map(type, map(edge_of, new))] != self.edges:
                return False
            if self.side is HERE:
                [*map(value_of, new)]  # an error if one waits
            elif {*map(type, map(wait_of, new))} - {Held}:
                return False
            if self.fixed and not all(want.fits(operands[k]) for k, want in self.fixed.items()):
                return False
        except (AttributeError, TypeError):  # one that waits, or is no tensor
            return False
        ids = [*map(id, new)]
        if not known.keys().isdisjoint(ids) or (lent and not lent.keys().isdisjoint(self.owners)):
            return False
        self.calm = self.rest = 1
        known.update(zip(ids, self.new_slots))
        run.tensors += new
        run.plans += self.plans
        run.held += self.held
        run.plain = run.plain and self.plain
        return True


def picking(positions: Any) -> Callable[[Sequence], Sequence]:
    """What picks the operands at some positions."""
    places = [*positions]
    if len(places) > 1:
        return itemgetter(*places)
    return lambda operands: [operands[k] for k in places]
