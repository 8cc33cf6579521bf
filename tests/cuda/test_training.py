"""Training on a GPU: calls that wait, programs that are graphs, and single calls give the same bits.

Some are workloads of bench/, the others small models of the same kinds: what is emulated takes its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad import nn
from cleargrad.bench.architectures import EVERY
from cleargrad.bench.workloads import Setup
from cleargrad.compile import beside
from cleargrad.compile.script import eager, waiting
from cleargrad.devices.cuda.driver import Cuda

F = nn.functional
STEPS = 7  # the last ones are replays of a graph


# Models ----------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A layer of a transformer, with attention to what came before where it is `causal`."""

    def __init__(self, causal: bool, width: int = 8) -> None:
        super().__init__()
        self.causal = causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        q, k, v = [
            part.unflatten(2, (2, -1)).transpose(1, 2) for part in self.attend(self.before(x)).chunk(3, 2)
        ]
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.join(seen.transpose(1, 2).flatten(2))
        return x + self.think(self.between(x))


class Last(nn.Module):
    """What a recurrent layer gives at the end."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0][:, -1]


class Mean(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.mean(1)


class Residual(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        return F.relu(x + self.layers(x))


class Joined(nn.Module):
    """Down and up again, beside what was there before."""

    def forward(self, x: Any) -> Any:
        return cg.cat([x, F.interpolate(F.max_pool2d(x, 2), scale_factor=2)], 1)


def text(size: int) -> Any:
    return lambda random: random.integers(9, size=(3, size))


def pictures(random: np.random.Generator) -> np.ndarray:
    return random.standard_normal((2, 3, 6, 6)).astype(np.float32)


def rows(random: np.random.Generator) -> np.ndarray:
    return random.standard_normal((3, 5, 6)).astype(np.float32)


def conv(before: int, after: int, size: int = 3, **options: Any) -> nn.Module:
    return nn.Conv2d(before, after, size, padding=size // 2, **options)


SMALL: dict[str, tuple[Callable[[], nn.Module], Callable]] = {
    "gpt": (lambda: nn.Sequential(nn.Embedding(9, 8), Block(True), Mean(), nn.Linear(8, 4)), text(5)),
    "encoder": (lambda: nn.Sequential(nn.Embedding(9, 8), Block(False), Mean(), nn.Linear(8, 4)), text(6)),
    "deep": (
        lambda: nn.Sequential(Mean(), *[layer for _ in range(9) for layer in (nn.Linear(6, 6), nn.Tanh())]),
        rows,
    ),
    "gru": (lambda: nn.Sequential(Last(nn.GRU(6, 5, batch_first=True)), nn.Linear(5, 4)), rows),
    "lstm": (lambda: nn.Sequential(Last(nn.LSTM(6, 5, 2, batch_first=True)), nn.Linear(5, 4)), rows),
    "bag": (lambda: nn.Sequential(nn.EmbeddingBag(9, 5), nn.Tanh(), nn.Linear(5, 4)), text(4)),
    "vit": (
        lambda: nn.Sequential(nn.Unfold(3, stride=3), nn.Linear(4, 8), Block(False), Mean(), nn.Linear(8, 4)),
        pictures,
    ),
    "cnn": (
        lambda: nn.Sequential(conv(3, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 4)),
        pictures,
    ),
    "resnet": (
        lambda: nn.Sequential(
            Residual(conv(3, 4, bias=False), nn.BatchNorm2d(4), nn.ReLU(), conv(4, 3), nn.BatchNorm2d(3)),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4),
        ),
        pictures,
    ),
    "mobilenet": (
        lambda: nn.Sequential(
            conv(3, 6, 1), nn.BatchNorm2d(6), nn.ReLU6(), conv(6, 6, groups=6), nn.Hardswish(), conv(6, 4, 1),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        ),
        pictures,
    ),
    "unet": (
        lambda: nn.Sequential(conv(3, 2), nn.ReLU(), Joined(), conv(4, 1), nn.Flatten(), nn.Linear(36, 4)),
        pictures,
    ),
    "audio": (
        lambda: nn.Sequential(nn.Conv1d(5, 4, 3), nn.BatchNorm1d(4), nn.GELU(), nn.Flatten(), nn.Linear(16, 4)),
        rows,
    ),
}  # fmt: skip
LARGE = ("linear", "mlp")
HOSTED = ("bag", "vit", "cnn", "unet")  # some of whose calls are made by the CPU


def steps_of(name: str) -> Callable[[int], Any]:
    """What makes a step of training, given its number, and gives the loss."""
    if name in LARGE:
        task = EVERY[name].make(cg, Setup())
        batches = [task.data(3, number) for number in range(4)]
        return lambda step: task.step(*batches[step % 4])
    make, data = SMALL[name]
    cg.manual_seed(2)
    with cg.device("cpu"):
        model = make()
    model.to("cuda")
    optimizer = cg.optim.AdamW(model.parameters(), lr=0.01)
    random = np.random.default_rng(3)
    given = [
        (cg.tensor(data(random)), cg.tensor(random.integers(4, size=2 if data is pictures else 3)))
        for _ in range(4)
    ]

    def step(number: int) -> Any:
        x, y = given[number % 4]
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def losses(name: str, wait: bool) -> tuple[list[float], bool]:
    """The losses of all steps, looked at when all is over; whether anything ran as a graph."""
    with cg.device("cuda"), waiting() if wait else eager() as switch:
        step, found = steps_of(name), []
        for number in range(STEPS):
            found.append(step(number))
            cg.cuda.synchronize()
            beside.wait()
        numbers = [float(loss) for loss in found]
        if not wait:
            return numbers, False
        programs = [end.program for end in switch.waiter.tree.endings if end.program is not None]
        return numbers, any(program.graph is not None for program in programs)


@pytest.mark.eager
@pytest.mark.parametrize("name", [*LARGE, *SMALL])
def test_bits_do_not_depend_on_the_way(cuda: Cuda, name: str) -> None:
    alone, _ = losses(name, wait=False)
    together, graphs = losses(name, wait=True)
    assert together == alone
    if name not in HOSTED:
        assert graphs
        assert not cuda.on_host, "calls were made by the CPU"
