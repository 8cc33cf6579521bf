"""Nine more models, of kinds that people train: there are no bars for them, they show where a library is slow.

Written as in bench/workloads.py, once for all libraries with PyTorch's interface, and small enough for two cores.
Read next: bench/variants.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .workloads import WORKLOADS, Setup, Task, Workload, classifier, fill, images, tokens


def trained(torch: Any, setup: Setup, model: Any, data: Callable[[int, int], tuple], batch: int) -> Task:
    """The model as a classifier, under AdamW."""
    optimizer = torch.optim.AdamW(fill(torch, model).parameters(), **setup.optimizer)
    return Task(classifier(torch, setup, model, optimizer), data, batch)


def trained_by_descent(torch: Any, setup: Setup, model: Any, batch: int, size: int) -> Task:
    """The model as a classifier of pictures, under SGD with momentum."""
    optimizer = torch.optim.SGD(fill(torch, model).parameters(), lr=0.01, momentum=0.9, **setup.optimizer)
    return Task(classifier(torch, setup, model, optimizer), images(torch, (3, size, size), 10), batch)


def labelled(torch: Any, length: int, vocabulary: int, classes: int) -> Callable[[int, int], tuple]:
    """Random texts, each with a class."""
    text = tokens(torch, length, vocabulary)

    def data(size: int, number: int) -> tuple:
        random = np.random.default_rng((size, number, 1))
        return text(size, number)[0], torch.tensor(random.integers(classes, size=size))

    return data


# Images ----------------------------------------------------------------------------------------------------


def residual(torch: Any) -> tuple[Any, Any]:
    """What residual networks are made of: a convolution with its norm, and a block of two with a short cut."""
    nn, relu = torch.nn, torch.nn.functional.relu

    def norm_after(before: int, after: int, size: int, stride: int) -> Any:
        convolution = nn.Conv2d(before, after, size, stride, size // 2, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(after))

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self, before: int, after: int, stride: int = 1) -> None:
            super().__init__()
            self.first, self.second = norm_after(before, after, 3, stride), norm_after(after, after, 3, 1)
            self.short = nn.Identity() if before == after else norm_after(before, after, 1, stride)

        def forward(self, x: Any) -> Any:
            return relu(self.second(relu(self.first(x))) + self.short(x))

    return norm_after, Block


def resnet(torch: Any, setup: Setup) -> Task:
    nn = torch.nn
    norm_after, Block = residual(torch)
    blocks = [
        Block(32, 32),
        Block(32, 32),
        Block(32, 64, 2),
        Block(64, 64),
        Block(64, 128, 2),
        Block(128, 128),
    ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
    model = nn.Sequential(norm_after(3, 32, 3, 1), nn.ReLU(), *blocks, *head)
    return trained_by_descent(torch, setup, model, batch=16, size=32)


def mobilenet(torch: Any, setup: Setup) -> Task:
    nn = torch.nn

    def block(before: int, after: int, stride: int) -> list:
        by_channel = nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False)
        mixing = nn.Conv2d(before, after, 1, bias=False)
        return [by_channel, nn.BatchNorm2d(before), nn.ReLU6(), mixing, nn.BatchNorm2d(after), nn.ReLU6()]

    stem = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    blocks = [*block(32, 64, 1), *block(64, 128, 2), *block(128, 128, 1), *block(128, 256, 2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)]
    return trained_by_descent(torch, setup, nn.Sequential(*stem, *blocks, *head), batch=16, size=64)


def vit(torch: Any, setup: Setup) -> Task:
    nn, width = torch.nn, 192

    class ViT(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 8, 8)
            self.mark = nn.Parameter(torch.zeros(1, 1, width))
            self.places = nn.Parameter(torch.zeros(1, 65, width))
            options = {"activation": "gelu", "batch_first": True, "norm_first": True}
            self.layers = nn.Sequential(
                *[nn.TransformerEncoderLayer(width, 3, 4 * width, 0.0, **options) for _ in range(3)]
            )
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.mark.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.layers(x)[:, 0])

    return trained(torch, setup, ViT(), images(torch, (3, 64, 64), 10), 8)


def unet(torch: Any, setup: Setup) -> Task:
    """Gives a class to every pixel."""
    nn = torch.nn

    def twice(before: int, after: int) -> Any:
        layers = []
        for channels in (before, after):
            layers += [nn.Conv2d(channels, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList([twice(3, 32), twice(32, 64), twice(64, 128)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)])
            self.join = nn.ModuleList([twice(128, 64), twice(64, 32)])
            self.head, self.shrink = nn.Conv2d(32, 10, 1), nn.MaxPool2d(2)

        def forward(self, x: Any) -> Any:
            fine = self.down[0](x)
            middle = self.down[1](self.shrink(fine))
            x = self.down[2](self.shrink(middle))
            for up, join, other in zip(self.up, self.join, (middle, fine)):
                x = join(torch.cat([up(x), other], 1))
            return self.head(x).permute(0, 2, 3, 1)

    def data(size: int, number: int) -> tuple:
        random = np.random.default_rng((size, number))
        picture = random.standard_normal((size, 3, 64, 64)).astype(np.float32)
        return torch.tensor(picture), torch.tensor(random.integers(10, size=(size, 64, 64)))

    return trained(torch, setup, UNet(), data, 4)


# Sequences -------------------------------------------------------------------------------------------------


def audio(torch: Any, setup: Setup) -> Task:
    nn = torch.nn
    layers = [nn.Conv1d(1, 32, 7, 2, 3), nn.BatchNorm1d(32), nn.ReLU()]
    layers += [nn.Conv1d(32, 64, 5, 2, 2), nn.BatchNorm1d(64), nn.ReLU(), nn.MaxPool1d(2)]
    layers += [nn.Conv1d(64, 128, 3, 1, 2, dilation=2), nn.ELU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()]
    model = nn.Sequential(*layers, nn.Linear(128, 10))
    return trained(torch, setup, model, images(torch, (1, 1024), 10), 32)


def encoder(torch: Any, setup: Setup) -> Task:
    nn = torch.nn

    class Encoder(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(1000, 128)
            layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True)
            self.layers, self.head = nn.TransformerEncoder(layer, 3), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.layers(self.table(x)).mean(1))

    return trained(torch, setup, Encoder(), labelled(torch, 64, 1000, 10), 16)


def gru(torch: Any, setup: Setup) -> Task:
    nn = torch.nn

    class Reader(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(1000, 64), nn.Linear(256, 10)
            self.gru = nn.GRU(64, 128, 2, batch_first=True, bidirectional=True)

        def forward(self, x: Any) -> Any:
            return self.head(self.gru(self.table(x))[0][:, -1])

    return trained(torch, setup, Reader(), labelled(torch, 40, 1000, 10), 32)


def bag(torch: Any, setup: Setup) -> Task:
    nn = torch.nn
    model = nn.Sequential(nn.EmbeddingBag(20_000, 64, mode="mean"), nn.Linear(64, 4))
    return trained(torch, setup, model, labelled(torch, 50, 20_000, 4), 64)


def deep(torch: Any, setup: Setup) -> Task:
    """Many small layers: what counts is what each call costs besides computing."""
    nn = torch.nn
    layers = [layer for _ in range(20) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU())]
    model = nn.Sequential(nn.Linear(20, 64), *layers, nn.Linear(64, 10))
    return trained(torch, setup, model, images(torch, (20,), 10), 32)


MORE = {
    "resnet": Workload("ResNet, 32 x 32, SGD with momentum, batch 16", resnet),
    "mobilenet": Workload("MobileNet, 64 x 64, SGD with momentum, batch 16", mobilenet),
    "vit": Workload("ViT 3 x 192, 64 x 64, AdamW, batch 8", vit),
    "unet": Workload("U-Net 32-64-128, 64 x 64, AdamW, batch 4", unet),
    "audio": Workload("1-d CNN over 1,024 samples, AdamW, batch 32", audio),
    "encoder": Workload("Transformer encoder 3 x 128, 16 x 64 tokens, AdamW", encoder),
    "gru": Workload("GRU 2 x 128, both ways, 32 x 40 tokens, AdamW", gru),
    "bag": Workload("EmbeddingBag 20,000 x 64, 64 x 50 tokens, AdamW", bag),
    "deep": Workload("20 x Linear(64), LayerNorm, GELU, AdamW, batch 32", deep),
}
EVERY = WORKLOADS | MORE
