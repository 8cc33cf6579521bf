"""The NumPy reading of a graph with the face of a program: the backend "aot_eager", and what programs are
tested by.

Read next: compile/program.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cleargrad.ops.record import Graph, replay


class Reading:
    """Runs a graph call by call."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        outputs = replay(self.graph, inputs)
        return [np.array(array) for array in outputs]  # memory of their own
