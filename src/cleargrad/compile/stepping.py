"""Steps through time in one native call: what a recurrent layer computes eagerly, one product and one loop a step.

Sequences of a batch have nothing to do with each other, so each thread makes all steps for sequences of its own and
never waits. The weight, which is the same at every step, is packed once by each thread. Addresses are known only
when arrays are there, and are filled in for all steps at once. Read next: codegen/sequence.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from cleargrad.codegen import gemm, sequence
from cleargrad.codegen.jit import addresses
from cleargrad.codegen.launch import SMALL
from cleargrad.codegen.team import team
from cleargrad.compile.products import simple

LINE = 64


def make_steps(
    kernel: int,
    matrices: list[np.ndarray],
    factors: tuple[np.ndarray, np.ndarray, np.ndarray],
    firsts: list[int],
    batch: int,
    product_first: bool,
) -> bool:
    """Makes one step for each of the rows in `firsts`, where it begins; False where another way must be taken.

    A step computes left @ right into out, the `factors`, and runs the loop `kernel` over `matrices`, for `batch`
    rows. Matrices of no more rows than that are states, which are the same at every step.
    """
    left, right, out = factors
    columns = matrices[0].shape[1]
    if not all(map(simple, factors)) or not all(matrix.strides[1] == matrix.itemsize for matrix in matrices):
        return False
    steps = np.array(firsts, np.int64)
    loop_words = np.empty((len(steps), 2 + 2 * len(matrices)), np.int64)
    loop_words[:, 0], loop_words[:, 1] = batch, columns
    loop_words[:, 2::2] = starts(matrices, steps, batch)
    loop_words[:, 3::2] = [matrix.strides[0] // matrix.itemsize for matrix in matrices]
    shares = shares_of(batch, batch * right.shape[0] * right.shape[1])
    left_at, out_at = starts([left, out], steps, batch).T
    kept: list[Any] = [loop_words]  # nobody else holds what the calls point to
    pairs = []
    for low, high in shares:
        product = product_of(high - low, left.dtype, right.shape, left.strides, right.strides, out.strides)
        words, work = product.filled(right, left_at + low * left.strides[0], out_at + low * out.strides[0])
        calls = np.empty((len(product.before) + 2 * len(steps), sequence.CALL), np.int64)
        calls[: len(product.before)] = product.packing(words)
        pair = calls[len(product.before) :].reshape(len(steps), 2, sequence.CALL)
        pair[:, 0 if product_first else 1] = product.multiplying(words)
        loops = pair[:, 1 if product_first else 0]
        loops[:, 0], loops[:, 1] = kernel, rows_at(loop_words)
        loops[:, 2:] = low, high
        kept += [words, work, calls]
        pairs.append((address(calls), len(calls)))
    arguments = np.array(pairs, np.int64)
    record = np.array([addresses([sequence.kernel()])[0], address(arguments), len(shares), 0], np.int64)
    team().run(address(record), 1, len(shares))
    return True


def shares_of(batch: int, work: int) -> list[tuple[int, int]]:
    """Which rows each thread takes; one takes all if a step is little work."""
    count = min(team().threads, batch) if work >= SMALL // 4 else 1
    return [(batch * k // count, batch * (k + 1) // count) for k in range(count)]


def starts(matrices: list[np.ndarray], steps: np.ndarray, batch: int) -> np.ndarray:
    """Where the rows of each step begin in memory, matrix by matrix."""
    moves = [matrix.strides[0] if len(matrix) > batch else 0 for matrix in matrices]
    return np.outer(steps, moves) + [address(matrix) for matrix in matrices]


class Prepared:
    """A product whose right operand is packed before: machine code, and arguments but for addresses."""

    def __init__(self, steps: gemm.Steps) -> None:
        codes = addresses([step.kernel for step in steps.steps])
        *self.before, self.last = zip(codes, steps.steps, strict=True)
        self.work = steps.work
        self.template = [word for step in steps.steps[:-1] for word in step.words]
        words = steps.steps[-1].words
        self.row = [0 if isinstance(word, tuple) else word for word in words]
        self.missing = [(position, word) for position, word in enumerate(words) if isinstance(word, tuple)]

    def filled(self, right: np.ndarray, left: np.ndarray, out: np.ndarray) -> tuple[tuple, np.ndarray]:
        """Arguments of what is packed, and of the product at each step; with the memory between them."""
        work = np.empty(self.work + LINE, np.uint8)
        known = {"right": address(right), "work": address(work) + -address(work) % LINE}
        first = [known[word[0]] + word[1] if isinstance(word, tuple) else word for word in self.template]
        places: dict[str, Any] = {**known, "left": left, "place": out}
        rows = np.empty((len(left), len(self.row)), np.int64)
        rows[:] = self.row
        for position, (name, shift) in self.missing:
            rows[:, position] = places[name] + shift
        return (np.array(first, np.int64), rows), work

    def packing(self, words: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int, int, int]]:
        found, start = [], address(words[0])
        for code, step in self.before:
            found.append((code, start, 0, step.units))
            start += 8 * len(step.words)
        return found

    def multiplying(self, words: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """The product's call at each step."""
        calls = np.empty((len(words[1]), sequence.CALL), np.int64)
        calls[:, 0], calls[:, 1], calls[:, 2], calls[:, 3] = (
            self.last[0],
            rows_at(words[1]),
            0,
            self.last[1].units,
        )
        return calls


@lru_cache(maxsize=256)
def product_of(rows: int, kind: np.dtype, shape: tuple[int, int], *strides: tuple[int, ...]) -> Prepared:
    inner, columns = shape
    left, right, out = (tuple(step // kind.itemsize for step in each) for each in strides)
    return Prepared(gemm.steps((), rows, columns, inner, kind, left, right, out, 1, pack_first=True))


def rows_at(words: np.ndarray) -> np.ndarray:
    """Where each row of arguments lies."""
    return address(words) + np.arange(len(words), dtype=np.int64) * words.strides[0]


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
