"""The workloads that are written for JAX, as its users would: one jitted function of parameters, state and batch.

Parameters and batches are those of bench/workloads.py, through NumPy; optimizers are written out, because JAX
has none. Imports here are relative: a worker opens this folder without importing cleargrad. Read next:
bench/runner.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .workloads import ELEMENTS, TENSORS, Task, random_weights

Parameters = list[Any]
RATE, FIRST, SECOND, SMALL = 1e-3, 0.9, 0.999, 1e-8  # Adam's, as PyTorch's defaults are


def adam_update(parameters: Parameters, grads: Parameters, state: Any) -> tuple[Parameters, Any]:
    count, means, squares = state
    count = count + 1
    means = [FIRST * m + (1 - FIRST) * g for m, g in zip(means, grads)]
    squares = [SECOND * v + (1 - SECOND) * g * g for v, g in zip(squares, grads)]
    scale, root = RATE / (1 - FIRST**count), jnp.sqrt(1 - SECOND**count)
    moved = [p - scale * m / (jnp.sqrt(v) / root + SMALL) for p, m, v in zip(parameters, means, squares)]
    return moved, (count, means, squares)


def sgd_update(parameters: Parameters, grads: Parameters, state: Any) -> tuple[Parameters, Any]:
    return [p - 0.01 * g for p, g in zip(parameters, grads)], state


def fresh_state(parameters: Parameters) -> Any:
    return jnp.float32(0), [jnp.zeros_like(p) for p in parameters], [jnp.zeros_like(p) for p in parameters]


def loss_of(parameters: Parameters, x: Any, y: Any) -> Any:
    """Cross entropy of linear layers with rectifiers between them; a weight and a bias for each."""
    for place in range(0, len(parameters), 2):
        x = (jax.nn.relu(x) if place else x) @ parameters[place].T + parameters[place + 1]
    return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1).mean()


def classifier(sizes: list[int], batch: int, update: Callable) -> Task:
    shapes: list[tuple[int, ...]] = [shape for n, m in itertools.pairwise(sizes) for shape in ((m, n), (m,))]

    held = {"parameters": [jnp.asarray(values) for values in random_weights(shapes)]}
    held["state"] = fresh_state(held["parameters"])

    def whole(parameters: Parameters, state: Any, x: Any, y: Any) -> tuple[Any, Parameters, Any]:
        loss, grads = jax.value_and_grad(loss_of)(parameters, x, y)
        return loss, *update(parameters, grads, state)

    run = jax.jit(whole, donate_argnums=(0, 1))

    def step(x: Any, y: Any) -> Any:
        loss, held["parameters"], held["state"] = run(held["parameters"], held["state"], x, y)
        return loss.block_until_ready()

    def data(size: int, number: int) -> tuple:
        random = np.random.default_rng((size, number))
        x = random.standard_normal((size, sizes[0])).astype(np.float32)
        return jnp.asarray(x), jnp.asarray(random.integers(sizes[-1], size=size))

    return Task(step, data, batch, float)


def linear() -> Task:
    return classifier([10, 2], 1, sgd_update)


def mlp() -> Task:
    return classifier([784, 128, 128, 10], 64, adam_update)


def adam() -> Task:
    random = np.random.default_rng(0)
    pairs = [[random.standard_normal(ELEMENTS).astype(np.float32) for _ in range(2)] for _ in range(TENSORS)]
    grads = [jnp.asarray(grad) for _, grad in pairs]
    held = {"parameters": [jnp.asarray(parameter) for parameter, _ in pairs]}
    held["state"] = fresh_state(held["parameters"])
    run = jax.jit(adam_update, donate_argnums=(0, 2))

    def step() -> None:
        held["parameters"], held["state"] = jax.block_until_ready(
            run(held["parameters"], grads, held["state"])
        )

    return Task(step, lambda size, number: (), 0, lambda _: float(held["parameters"][-1].mean()))


TASKS = {"linear": linear, "mlp": mlp, "adam": adam}
