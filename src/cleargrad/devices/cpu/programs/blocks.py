"""The memory that programs compute in: blocks that large programs borrow while they run.

So those of a function do not take memory each. Read next: devices/cpu/programs/program.py.
"""

from __future__ import annotations

from cleargrad.core.address import address, lined_up
from cleargrad.core.memory import give_back_freed_memory

LARGE = 1 << 20  # bytes from which a program borrows its memory
SPARE = 1 << 28  # bytes, at most, that a new block has for larger programs


class Block:
    """Memory that begins with a cache line."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = lined_up(size)
        self.base = address(self.memory)


_free: list[Block] = []  # its methods are atomic: it needs no lock, which a forked child could find held


def borrow(size: int) -> Block:
    """A block of at least this size, for one run. New memory is dear at its first touch, so blocks are used again.

    Those that turn out to be too small are given up. A new one is larger than asked for: what nobody touches costs
    nothing, and the next program is often a little larger, as for a batch of one more.
    """
    while True:
        try:
            block = _free.pop()
        except IndexError:
            give_back_freed_memory()
            return Block(size + min(size, SPARE))
        if block.size >= size:
            return block


def give_back(block: Block) -> None:
    _free.append(block)
