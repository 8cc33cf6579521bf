"""A schedule: the entries that compute a graph, in order, and whose memory their results may lie in.

It is data: it can be printed (schedule/text.py), verified (schedule/verify.py), read by NumPy (schedule/reading.py)
and lowered by any device, which decides about threads, addresses and machine code. Read next: schedule/passes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.schedule.formulas import Buffer
from cleargrad.schedule.lifetimes import arena, lifetimes
from cleargrad.schedule.statements import Plan
from cleargrad.schedule.text import text_of


@dataclass
class Schedule:
    """What is computed, entry by entry."""

    plan: Plan  # where inputs come from and results go
    entries: list[Any]  # Nest, Product, AddRows, Native or Host; before loops are fused Store and Reduce
    sure: int  # from this entry on nothing can fail, and memory from outside is written
    in_place: dict[Buffer, Tensor]  # results that lie in the memory of the outside tensors they are to become

    def __str__(self) -> str:
        return text_of(self)

    @property
    def copied(self) -> list[tuple[Tensor, Buffer]]:
        """The outside tensors that get their new values when all else is done, and from where."""
        return [(tensor, b) for tensor, b in self.plan.writes if self.in_place.get(b) is not tensor]

    @cached_property
    def lifetimes(self) -> dict[Buffer, tuple[int, int]]:
        """The first and last entry that touches each inside buffer; what is copied lives until the end."""
        spans = lifetimes(self.entries)
        for _, buffer in self.copied:
            if buffer in spans:
                spans[buffer] = (spans[buffer][0], len(self.entries))
        return spans

    @cached_property
    def arena(self) -> tuple[dict[Buffer, int], int]:
        """Where inside buffers lie in one block of memory, and its size; outputs have memory of their own."""
        return arena(self.lifetimes, [*self.plan.outputs, *self.in_place])
