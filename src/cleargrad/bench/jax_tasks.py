"""The workloads for JAX, as its users would write them: one jitted function of parameters, state and batch.

Parameters have PyTorch's names and JAX's layouts: a layer's weight is (inputs, outputs), an image's channels come
last. Optimizers are written out, because JAX has none. Imports here are relative: a worker opens this folder
without importing cleargrad. Read next: bench/tinygrad_tasks.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .weights import SHAPES, random_weights
from .workloads import Task, adam_arrays, images, tokens

Parameters = dict[str, Any]
ARRAYS = SimpleNamespace(tensor=jnp.asarray)  # what the data of bench/workloads.py need of a library
tree_map = jax.tree_util.tree_map


# Optimizers ------------------------------------------------------------------------------------------------


def sgd(momentum: float, parameters: Parameters, grads: Parameters, state: Any) -> tuple[Parameters, Any]:
    if momentum:
        grads = state = tree_map(lambda b, g: momentum * b + g, state, grads)
    return tree_map(lambda p, g: p - 0.01 * g, parameters, grads), state


def adamw(decay: float, parameters: Parameters, grads: Parameters, state: Any) -> tuple[Parameters, Any]:
    """Adam with PyTorch's defaults; with `decay`, AdamW."""
    count, means, squares = state
    count = count + 1
    means = tree_map(lambda m, g: 0.9 * m + 0.1 * g, means, grads)
    squares = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, grads)
    rate, root = 1e-3 / (1 - 0.9**count), jnp.sqrt(1 - 0.999**count)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return p * (1 - 1e-3 * decay) - rate * m / (jnp.sqrt(v) / root + 1e-8)

    return tree_map(moved, parameters, means, squares), (count, means, squares)


def zeros(parameters: Parameters) -> Parameters:
    return tree_map(jnp.zeros_like, parameters)


def adam_state(parameters: Parameters) -> Any:
    return jnp.float32(0), zeros(parameters), zeros(parameters)


def clip(grads: Parameters, most: float) -> Parameters:
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in grads.values()))
    scale = jnp.minimum(1.0, most / (norm + 1e-6))
    return tree_map(lambda g: g * scale, grads)


# Steps -----------------------------------------------------------------------------------------------------


def trained(start: Parameters, state: Any, whole: Callable, data: Callable, batch: int) -> Task:
    """A task that keeps parameters and state; `whole` gives the loss and both anew, in the memory of the old."""
    held = [start, state]
    run = jax.jit(whole, donate_argnums=(0, 1))

    def step(*arguments: Any) -> Any:
        loss, *held[:] = jax.block_until_ready(run(*held, *arguments))
        return loss

    return Task(step, data, batch, float)


def classifier(model: Callable, update: Callable) -> Callable:
    """The step of a model that gives one score per class."""

    def whole(parameters: Parameters, state: Any, x: Any, y: Any) -> tuple:
        loss, grads = jax.value_and_grad(partial(loss_of, model))(parameters, x, y)
        return loss, *update(parameters, grads, state)

    return whole


def loss_of(model: Callable, parameters: Parameters, x: Any, y: Any) -> Any:
    chances = jax.nn.log_softmax(model(parameters, x))
    return -jnp.take_along_axis(chances, y[..., None], axis=-1).mean()


def parameters_of(workload: str) -> Parameters:
    return {name: jnp.asarray(turned(name, w)) for name, w in random_weights(SHAPES[workload]).items()}


def turned(name: str, weight: np.ndarray) -> np.ndarray:
    """From PyTorch's layout to JAX's; tables are the same in both."""
    if weight.ndim == 4:
        return weight.transpose(2, 3, 1, 0)
    return weight.T if weight.ndim == 2 and name not in ("table.weight", "places.weight") else weight


# Models ----------------------------------------------------------------------------------------------------


def linear(p: Parameters, name: str, x: Any) -> Any:
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def perceptron(p: Parameters, x: Any) -> Any:
    x = jax.nn.relu(linear(p, "0", x))
    return linear(p, "4", jax.nn.relu(linear(p, "2", x)))


def convolution(p: Parameters, name: str, x: Any) -> Any:
    layouts = ("NHWC", "HWIO", "NHWC")
    weight = p[f"{name}.weight"]
    x = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=layouts)
    return x + p[f"{name}.bias"]


def network(p: Parameters, x: Any) -> Any:
    x = jax.nn.relu(convolution(p, "2", jax.nn.relu(convolution(p, "0", x))))
    # Quicker than reduce_window, whose gradient is a scatter.
    x = x.reshape(-1, 12, 2, 12, 2, 64).max((2, 4)).reshape(-1, 9216)
    return linear(p, "8", jax.nn.relu(linear(p, "6", x)))


def recurrent(p: Parameters, layer: int, x: Any) -> Any:
    """One layer over a whole sequence, which is the first dimension here."""
    into, again = (p[f"lstm.weight_{kind}_l{layer}"] for kind in ("ih", "hh"))
    bias = p[f"lstm.bias_ih_l{layer}"] + p[f"lstm.bias_hh_l{layer}"]

    def cell(before: tuple, part: Any) -> tuple:
        hidden, kept = before
        i, f, g, o = jnp.split(part + hidden @ again, 4, axis=-1)
        kept = jax.nn.sigmoid(f) * kept + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(kept)
        return (hidden, kept), hidden

    nothing = jnp.zeros((x.shape[1], again.shape[0]))
    return jax.lax.scan(cell, (nothing, nothing), x @ into + bias)[1]


def reader(p: Parameters, x: Any) -> Any:
    x = p["table.weight"][x.T]
    for layer in range(2):
        x = recurrent(p, layer, x)
    return linear(p, "head", x.swapaxes(0, 1))


def norm(p: Parameters, name: str, x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def transformer(p: Parameters, x: Any) -> Any:
    batch, length = x.shape
    x = p["table.weight"][x] + p["places.weight"][:length]
    for block in [f"blocks.{number}" for number in range(4)]:
        parts = jnp.split(linear(p, f"{block}.attend", norm(p, f"{block}.norm", x)), 3, axis=-1)
        q, k, v = (part.reshape(batch, length, 4, 32) for part in parts)
        seen = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(p, f"{block}.project", seen.reshape(batch, length, 128))
        wide = linear(p, f"{block}.widen", norm(p, f"{block}.second_norm", x))
        x = x + linear(p, f"{block}.narrow", jax.nn.gelu(wide, approximate=False))
    return norm(p, "norm", x) @ p["head.weight"]


# Tasks -----------------------------------------------------------------------------------------------------


def linear_task() -> Task:
    whole = classifier(lambda p, x: linear(p, "0", x), partial(sgd, 0.0))
    return trained(parameters_of("linear"), None, whole, images(ARRAYS, (10,), 2), 1)


def mlp() -> Task:
    p = parameters_of("mlp")
    whole = classifier(perceptron, partial(adamw, 0.0))
    return trained(p, adam_state(p), whole, images(ARRAYS, (784,), 10), 64)


def cnn() -> Task:
    p, data = parameters_of("cnn"), images(ARRAYS, (1, 28, 28), 10)
    # Channels come last, so a row of the first layer behind the images goes with another of its numbers.
    p["6.weight"] = p["6.weight"].reshape(64, 144, 128).swapaxes(0, 1).reshape(9216, 128)

    def channels_last(size: int, number: int) -> tuple:
        x, y = data(size, number)
        return x.transpose(0, 2, 3, 1), y

    return trained(p, zeros(p), classifier(network, partial(sgd, 0.9)), channels_last, 64)


def lstm() -> Task:
    p = parameters_of("lstm")
    whole = classifier(reader, partial(adamw, 0.0))
    return trained(p, adam_state(p), whole, tokens(ARRAYS, 32, 64), 32)


def gpt(parts: int = 1) -> Task:
    p = parameters_of("gpt")

    def whole(parameters: Parameters, state: Any, x: Any, y: Any) -> tuple:
        def add(total: Any, part: Any) -> tuple:
            return tree_map(jnp.add, total, slope(parameters, *part)), None

        slope = jax.value_and_grad(lambda p, x, y: loss_of(transformer, p, x, y) / parts)
        if parts == 1:
            loss, grads = slope(parameters, x[0], y[0])
        else:
            (loss, grads), _ = jax.lax.scan(add, (jnp.float32(0), zeros(parameters)), (x, y))
        return loss, *adamw(0.01, parameters, clip(grads, 1.0), state)

    return trained(p, adam_state(p), whole, tokens(ARRAYS, 64, 65, (parts,)), 12)


def adam() -> Task:
    """Only the update: `grads` stay as they are."""
    p: Parameters = {}
    grads: Parameters = {}
    for k, (parameter, grad) in enumerate(adam_arrays()):
        p[str(k)], grads[str(k)] = jnp.asarray(parameter), jnp.asarray(grad)
    held = [p, adam_state(p)]
    run = jax.jit(partial(adamw, 0.0), donate_argnums=(0, 2))

    def step() -> None:
        held[:] = jax.block_until_ready(run(held[0], grads, held[1]))

    return Task(step, lambda size, number: (), 0, lambda _: float(held[0]["99"].mean()))


TASKS = {
    "linear": linear_task,
    "mlp": mlp,
    "cnn": cnn,
    "lstm": lstm,
    "gpt": gpt,
    "gpt4": partial(gpt, 4),
    "adam": adam,
}
