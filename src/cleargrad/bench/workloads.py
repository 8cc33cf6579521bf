"""The training steps that are measured, written once for both libraries with PyTorch's interface.

Every function takes a library (`torch` or `cleargrad`, as a module) and a `Setup`, and gives a `Task`.
Parameters and data come from NumPy's generator, so that all libraries train the same model on the same numbers.
Libraries with another interface have tasks of their own, in bench/jax_tasks.py and bench/tinygrad_tasks.py; their
data come from here. Read next: bench/architectures.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .weights import random_weights


@dataclass
class Setup:
    """How a task is run: what the optimizer is given, and what is done to the model before it is used."""

    optimizer: dict[str, Any] = field(default_factory=dict)
    model: Callable[[Any], Any] = lambda model: model


@dataclass
class Task:
    """A training step, and arguments for it by the size of the batch; `value` says where training has got to."""

    step: Callable[..., Any]
    data: Callable[[int, int], tuple]  # (size of the batch, which batch)
    batch: int
    value: Callable[[Any], float] = lambda loss: float(loss.detach())


def fill(torch: Any, model: Any) -> Any:
    """The model, with parameters that are the same in every library."""
    named = dict(model.named_parameters())
    with torch.no_grad():
        for name, values in random_weights({n: tuple(each.shape) for n, each in named.items()}).items():
            named[name].copy_(torch.tensor(values))
    return model


def images(torch: Any, shape: tuple[int, ...], classes: int) -> Callable[[int, int], tuple]:
    def data(size: int, number: int) -> tuple:
        random = np.random.default_rng((size, number))
        x = random.standard_normal((size, *shape)).astype(np.float32)
        return torch.tensor(x), torch.tensor(random.integers(classes, size=size))

    return data


def tokens(
    torch: Any, length: int, vocabulary: int, parts: tuple[int, ...] = ()
) -> Callable[[int, int], tuple]:
    """Random text, and the same text one place further."""

    def data(size: int, number: int) -> tuple:
        text = np.random.default_rng((size, number)).integers(vocabulary, size=(*parts, size, length + 1))
        return torch.tensor(text[..., :-1].copy()), torch.tensor(text[..., 1:].copy())

    return data


def classifier(torch: Any, setup: Setup, model: Any, optimizer: Any) -> Callable:
    """A step of a model that gives one score per class."""
    cross_entropy, run = torch.nn.functional.cross_entropy, setup.model(model)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        scores = run(x)
        loss = cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def linear(torch: Any, setup: Setup) -> Task:
    model = fill(torch, torch.nn.Linear(10, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, **setup.optimizer)
    return Task(classifier(torch, setup, model, optimizer), images(torch, (10,), 2), 1)


def mlp(torch: Any, setup: Setup) -> Task:
    nn = torch.nn
    layers = [nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
    model = fill(torch, nn.Sequential(*layers))
    optimizer = torch.optim.Adam(model.parameters(), **setup.optimizer)
    return Task(classifier(torch, setup, model, optimizer), images(torch, (784,), 10), 64)


def cnn(torch: Any, setup: Setup) -> Task:
    nn = torch.nn
    convolutions = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10)]
    model = fill(torch, nn.Sequential(*convolutions, *head))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **setup.optimizer)
    return Task(classifier(torch, setup, model, optimizer), images(torch, (1, 28, 28), 10), 64)


def lstm(torch: Any, setup: Setup) -> Task:
    nn, vocabulary = torch.nn, 64

    class Reader(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(vocabulary, 128)
            self.lstm = nn.LSTM(128, 128, 2, batch_first=True)
            self.head = nn.Linear(128, vocabulary)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.table(x))[0])

    model = fill(torch, Reader())
    optimizer = torch.optim.Adam(model.parameters(), **setup.optimizer)
    return Task(classifier(torch, setup, model, optimizer), tokens(torch, 32, vocabulary), 32)


def make_gpt(torch: Any, vocabulary: int, context: int, width: int, layers: int, heads: int) -> Any:
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.attend(self.norm(x)).split(width, dim=2)
            q, k, v = (part.view(batch, length, heads, width // heads).transpose(1, 2) for part in parts)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(seen.transpose(1, 2).contiguous().view(batch, length, width))
            return x + self.narrow(functional.gelu(self.widen(self.second_norm(x))))

    class GPT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.table(x) + self.places(torch.arange(x.shape[1], device=x.device))
            return self.head(self.norm(self.blocks(x)))

    return fill(torch, GPT())


def gpt(torch: Any, setup: Setup, parts: int = 1) -> Task:
    """A small GPT over characters; with several parts, their gradients are added up before the update."""
    vocabulary = 65
    model = make_gpt(torch, vocabulary, context=64, width=128, layers=4, heads=4)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, **setup.optimizer)
    cross_entropy, run = torch.nn.functional.cross_entropy, setup.model(model)
    clip = torch.nn.utils.clip_grad_norm_

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        total = 0.0
        for k in range(parts):
            loss = cross_entropy(run(x[k]).view(-1, vocabulary), y[k].view(-1)) / parts
            loss.backward()
            total = total + loss.detach()
        clip(parameters, 1.0)
        optimizer.step()
        return total

    return Task(step, tokens(torch, 64, vocabulary, (parts,)), 12)


def accumulating_gpt(torch: Any, setup: Setup) -> Task:
    return gpt(torch, setup, parts=4)


TENSORS, ELEMENTS = 100, 100_000


def adam_arrays() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Parameters with their gradients, one pair at a time: what is measured is the memory of a library."""
    random = np.random.default_rng(0)
    for _ in range(TENSORS):
        parameter, grad = (random.standard_normal(ELEMENTS).astype(np.float32) for _ in range(2))
        yield parameter, grad


def adam(torch: Any, setup: Setup) -> Task:
    """Only the update, of parameters whose gradients are there."""
    made = []
    for parameter, grad in adam_arrays():
        made.append(torch.tensor(parameter).requires_grad_())
        made[-1].grad = torch.tensor(grad)
    optimizer = torch.optim.Adam(made, **setup.optimizer)

    def step() -> None:
        optimizer.step()

    return Task(step, lambda size, number: (), 0, lambda _: float(made[-1].detach().mean()))


def adam_bytes() -> Task:
    """The bytes that Adam moves and nothing else, as a program: four arrays are read, three of them written."""
    torch, record, program = map(
        importlib.import_module,
        ("cleargrad", "cleargrad.ops.record", "cleargrad.devices.cpu.programs.program"),
    )
    tensors = [[torch.ones(ELEMENTS) for _ in range(4)] for _ in range(TENSORS)]
    with record.Recorder() as recorder:
        for parameter, grad, first, second in tensors:
            parameter.add_(grad)
            first.neg_()
            second.neg_()
        run = program.Program(recorder.finish([])).run
    return Task(lambda: run([]), lambda size, number: (), 0, lambda _: 0.0)


@dataclass
class Workload:
    """A row of the report: the bar and the goal, where there are any, are compiled time over the best PyTorch's."""

    title: str
    make: Callable[[Any, Setup], Task]
    bar: float | None = None
    goal: float | None = None


WORKLOADS = {
    "linear": Workload("Linear(10, 2), SGD, batch 1", linear, 0.10, 0.05),
    "mlp": Workload("MLP 784-128-128-10, Adam, batch 64", mlp, 0.45, 0.25),
    "cnn": Workload("MNIST CNN, SGD with momentum, batch 64", cnn, 0.80, 0.50),
    "lstm": Workload("LSTM 2 x 128, sequence 32, batch 32, Adam", lstm, 0.50, 0.35),
    "gpt": Workload("char-GPT 4 x 128, 12 x 64 tokens, AdamW, clip", gpt, 0.40, 0.25),
    "gpt4": Workload("the same, 4 accumulation steps", accumulating_gpt, 0.40, 0.25),
    "adam": Workload("Adam over 100 tensors of 100,000", adam, 0.95, 0.95),
}
