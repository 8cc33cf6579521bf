"""Models of the size that people train on a GPU: GPT-2 with 124 million parameters, and ResNet-18.

Written as in bench/workloads.py, once for all libraries with PyTorch's interface. Read next: bench/variants.py.
"""

from __future__ import annotations

from typing import Any

from .architectures import residual
from .workloads import Setup, Task, Workload, fill, images, make_gpt, tokens

GPT2 = {"vocabulary": 50304, "context": 1024, "width": 768, "layers": 12, "heads": 12}


def gpt2(torch: Any, setup: Setup) -> Task:
    """GPT-2 in bfloat16 autocast, its table of tokens used twice; AdamW, gradients clipped."""
    model = make_gpt(torch, **GPT2)
    model.head.weight = model.table.weight
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **setup.optimizer)
    cross_entropy, run = torch.nn.functional.cross_entropy, setup.model(model)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = cross_entropy(run(x).view(-1, GPT2["vocabulary"]), y.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss.detach()

    return Task(step, tokens(torch, GPT2["context"], GPT2["vocabulary"]), 32)


def resnet18(torch: Any, setup: Setup) -> Task:
    """ResNet-18 on pictures of 224 x 224 in bfloat16 autocast; SGD with momentum."""
    nn = torch.nn
    norm_after, Block = residual(torch)
    widths = ((64, 64), (64, 128), (128, 256), (256, 512))
    blocks = [
        block
        for before, after in widths
        for block in (Block(before, after, 1 if before == after else 2), Block(after, after, 1))
    ]
    stem = [norm_after(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    model = fill(torch, nn.Sequential(*stem, *blocks, *head))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, **setup.optimizer)
    cross_entropy, run = torch.nn.functional.cross_entropy, setup.model(model)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = cross_entropy(run(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Task(step, images(torch, (3, 224, 224), 1000), 64)


LARGE = {
    "gpt2": Workload("GPT-2 124M, bfloat16, 32 x 1024 tokens, AdamW, clip", gpt2),
    "resnet18": Workload("ResNet-18, 224 x 224, bfloat16, SGD with momentum, batch 64", resnet18),
}
