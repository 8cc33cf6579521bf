"""The workloads that are written for tinygrad, as its users would: a step under TinyJit, with tinygrad's optimizers.

Parameters and batches are those of bench/workloads.py, through NumPy. Imports here are relative: a worker opens this
folder without importing cleargrad. Read next: bench/runner.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor, TinyJit
from tinygrad.nn.optim import SGD, Adam

from .workloads import Task, random_weights


def classifier(sizes: list[int], batch: int, make_optimizer: Callable[[list[Any]], Any]) -> Task:
    shapes = [shape for n, m in zip(sizes, sizes[1:]) for shape in ((m, n), (m,))]
    parameters = [Tensor(values, requires_grad=True) for values in random_weights(shapes)]
    optimizer = make_optimizer(parameters)

    @TinyJit
    def run(x: Any, y: Any) -> Any:
        for place in range(0, len(parameters), 2):
            x = (x.relu() if place else x).linear(parameters[place].T, parameters[place + 1])
        optimizer.zero_grad()
        loss = x.sparse_categorical_crossentropy(y).backward()
        optimizer.step()
        return loss.realize()

    def step(x: Any, y: Any) -> float:
        with Tensor.train():
            return float(run(x, y).item())

    def data(size: int, number: int) -> tuple:
        random = np.random.default_rng((size, number))
        x = random.standard_normal((size, sizes[0])).astype(np.float32)
        labels = random.integers(sizes[-1], size=size).astype(np.int32)
        return Tensor(x).realize(), Tensor(labels).realize()

    return Task(step, data, batch, float)


def linear() -> Task:
    return classifier([10, 2], 1, lambda parameters: SGD(parameters, lr=0.01))


def mlp() -> Task:
    return classifier([784, 128, 128, 10], 64, lambda parameters: Adam(parameters, lr=1e-3))


TASKS = {"linear": linear, "mlp": mlp}
