"""A verifier of schedules: nothing is read before it was written. It runs where that of graphs does.

Read next: schedule/schedule.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.graph.verify import broken
from cleargrad.schedule.formulas import Buffer
from cleargrad.schedule.lifetimes import reads_of, writes_of


def verify(entries: list[Any], outputs: list[Buffer], stage: str) -> None:
    """Raises where a program would read memory of its own that nothing has been stored in.

    Of a buffer without elements nothing is stored, as where empty tensors are joined, and nothing read.
    """
    filled: set[Buffer] = set()
    for number, entry in enumerate(entries):
        filled.update(writes_of(entry))
        for load in reads_of(entry):
            if load.buffer.role == "inside" and load.buffer not in filled and load.buffer.size:
                raise broken(f"entry {number} after {stage}", f"{load.buffer} is read before it is written")
    for buffer in outputs:
        if buffer.role == "inside" and buffer not in filled and buffer.size:
            raise broken(f"outputs after {stage}", f"{buffer} is never written")
