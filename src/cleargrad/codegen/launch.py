"""Runs kernels on arrays at once: the way in for eager ops.

`run` takes the steps that a module such as codegen/convolution.py chose and the arrays by the names its words use. It
compiles what was not compiled before and runs it on the team. Read next: codegen/team.py.
"""

from __future__ import annotations

import numpy as np

from cleargrad.codegen.gemm import Steps
from cleargrad.codegen.jit import addresses
from cleargrad.codegen.team import ALONE, RECORD, WAIT, team

LINE = 64


class Launch:
    """Steps that are ready to run: machine code, and arguments in which only addresses are missing."""

    def __init__(self, steps: Steps, alone: bool = False) -> None:
        chosen = steps.steps
        starts: list[int] = []
        words: list[int] = []
        self.patches: list[tuple[int, str, int]] = []
        for step in chosen:
            starts.append(len(words))
            for word in step.words:
                if isinstance(word, tuple):
                    self.patches.append((len(words), *word))
                    word = 0
                words.append(word)
        self.words = np.array(words, np.int64)
        code = addresses([step.kernel for step in chosen])
        base = self.words.ctypes.data
        flag = WAIT | (ALONE if alone else 0)
        records = [
            [address, base + 8 * start, step.units, flag]
            for address, start, step in zip(code, starts, chosen, strict=True)
        ]
        self.records = np.array(records, np.int64).reshape(-1, RECORD)
        self.threads = 1 if alone else 2
        self.work = steps.work

    def run(self, arrays: dict[str, np.ndarray]) -> None:
        """Runs on contiguous arrays; not by two threads at once, since arguments are shared."""
        if not len(self.records):
            return
        places = {name: array.__array_interface__["data"][0] for name, array in arrays.items()}
        if self.work:
            memory = np.empty(self.work + LINE, np.uint8)
            start = memory.__array_interface__["data"][0]
            places["work"] = start + -start % LINE
        for position, name, shift in self.patches:
            self.words[position] = places[name] + shift
        team().run(self.records.ctypes.data, len(self.records), self.threads)
