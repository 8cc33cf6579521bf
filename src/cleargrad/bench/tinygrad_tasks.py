"""The workloads for tinygrad, as its users would write them: the whole step in one TinyJit.

Models have the parts of bench/workloads.py by the same names, and get the same parameters. tinygrad needs clang
on the path; its search for better kernels takes minutes and is left to whoever sets BEAM. Imports here are
relative: a worker opens this folder without importing cleargrad. Read next: bench/worker.py.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from tinygrad import Device, Tensor, TinyJit, dtypes, nn
from tinygrad.helpers import Context

from .weights import random_weights
from .workloads import Task, adam_arrays, images, tokens

WIDTH, HEADS = 128, 4


def tensor(array: np.ndarray) -> Tensor:
    kind = dtypes.int32 if array.dtype.kind == "i" else dtypes.float32
    return Tensor(array, dtype=kind).contiguous().realize()


TENSORS = SimpleNamespace(tensor=tensor)  # what the data of bench/workloads.py need of a library


def fill(model: Any) -> Any:
    named = nn.state.get_state_dict(model)
    values = random_weights({name: tuple(map(int, each.shape)) for name, each in named.items()})
    nn.state.load_state_dict(model, {name: tensor(each) for name, each in values.items()}, verbose=False)
    return model


def whole(step: Callable) -> Callable:
    """A step as one program, which is waited for."""
    run, device = TinyJit(step), Device[Device.DEFAULT]

    def waited(*arguments: Tensor) -> Any:
        with Context(TRAINING=1):
            loss = run(*arguments)
        device.synchronize()
        return loss

    return waited


def loss_of(scores: Tensor, y: Tensor) -> Tensor:
    return scores.reshape(-1, scores.shape[-1]).sparse_categorical_crossentropy(y.reshape(-1))


def classifier(model: Callable, optimizer: Any, data: Callable, batch: int) -> Task:
    """A model that gives one score per class."""

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model(x), y).backward()
        return loss.realize(*optimizer.schedule_step())

    return Task(whole(step), data, batch, Tensor.item)


def linear() -> Task:
    model = fill(nn.Linear(10, 2))
    optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.01)
    return classifier(model, optimizer, images(TENSORS, (10,), 2), 1)


def mlp() -> Task:
    layers = fill([nn.Linear(784, 128), Tensor.relu, nn.Linear(128, 128), Tensor.relu, nn.Linear(128, 10)])
    optimizer = nn.optim.Adam(nn.state.get_parameters(layers))
    return classifier(lambda x: x.sequential(layers), optimizer, images(TENSORS, (784,), 10), 64)


def cnn() -> Task:
    convolutions = [nn.Conv2d(1, 32, 3), Tensor.relu, nn.Conv2d(32, 64, 3), Tensor.relu, Tensor.max_pool2d]
    head = [lambda x: x.flatten(1), nn.Linear(9216, 128), Tensor.relu, nn.Linear(128, 10)]
    layers = fill(convolutions + head)
    optimizer = nn.optim.SGD(nn.state.get_parameters(layers), lr=0.01, momentum=0.9)
    return classifier(lambda x: x.sequential(layers), optimizer, images(TENSORS, (1, 28, 28), 10), 64)


class Block:
    def __init__(self) -> None:
        self.norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def __call__(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = self.attend(self.norm(x)).chunk(3, dim=2)
        q, k, v = (part.reshape(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        seen = q.scaled_dot_product_attention(k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(self.widen(self.second_norm(x)).gelu("none"))


class GPT:
    def __init__(self, vocabulary: int, context: int, layers: int) -> None:
        self.table, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(context, WIDTH)
        self.blocks = [Block() for _ in range(layers)]
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.table(x) + self.places.weight[: x.shape[1]]
        return self.head(self.norm(x.sequential(self.blocks)))


def clip(parameters: list[Tensor], most: float) -> None:
    norm = sum((p.grad.square().sum() for p in parameters), Tensor(0.0)).sqrt()
    scale = (most / (norm + 1e-6)).clamp(max_=1.0).contiguous()
    for p in parameters:
        p.grad = p.grad * scale


def gpt() -> Task:
    model = fill(GPT(65, context=64, layers=4))
    parameters = nn.state.get_parameters(model)
    optimizer = nn.optim.AdamW(parameters)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(model(x[0]), y[0]).backward()
        clip(parameters, 1.0)
        return loss.realize(*optimizer.schedule_step())

    return Task(whole(step), tokens(TENSORS, 64, 65, (1,)), 12, Tensor.item)


def adam() -> Task:
    """Only the update, of parameters whose gradients are there."""
    made = []
    for parameter, grad in adam_arrays():
        made.append(tensor(parameter))
        made[-1].grad = tensor(grad)
    optimizer = nn.optim.Adam(made)
    step = whole(lambda: Tensor.realize(*optimizer.schedule_step()))
    return Task(step, lambda size, number: (), 0, lambda _: made[-1].mean().item())


TASKS = {"linear": linear, "mlp": mlp, "cnn": cnn, "gpt": gpt, "adam": adam}
