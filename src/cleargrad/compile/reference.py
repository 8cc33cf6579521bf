"""The NumPy reading of a graph with the face of a program: the backend "aot_eager", and what programs are
tested by.

Read next: devices/cpu/programs/program.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cleargrad.core.tensor import Tensor
from cleargrad.graph.verify import is_on, verify
from cleargrad.ops.record import Graph, replay


class Reading:
    """Runs a graph call by call."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        if is_on():
            verify(graph, "recording")

    def forget_making(self, graph: Graph) -> None:
        """The graph is what is run."""

    def fix(self, first: int, arrays: Sequence[np.ndarray]) -> None:
        """Inputs from a number on are these arrays at every run."""

    def leave_to_owner(self, tensors: Sequence[Tensor]) -> None:
        """Tensors are looked for at every run."""

    def bind(self) -> None:
        """The same."""

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.array(array, order="C") for array in replay(self.graph, inputs)]  # memory of their own
