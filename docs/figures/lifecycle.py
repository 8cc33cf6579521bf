"""Draws the figures of the pages on the life of gradients, each from a run that happens here. Takes some seconds.

python docs/figures/lifecycle.py
"""

from __future__ import annotations

from typing import Any

import drawing
import numpy as np

import cleargrad as torch
from cleargrad import doctor, nn
from cleargrad.charts import Curve, Curves
from cleargrad.datasets import digits
from cleargrad.doctor.lesson import Lesson
from cleargrad.nn import functional as F

STEPS = 300


def classifier() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def losses(clears: bool) -> list[float]:
    """A network learns to read digits, with or without zero_grad."""
    images, labels = digits()
    model, optimizer = classifier()
    found = []
    for _ in range(STEPS):
        batch = torch.randint(len(images), (64,))
        if clears:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def draw_losses() -> None:
    steps = list(range(1, STEPS + 1))
    curves = [
        Curve("no zero_grad", steps, losses(clears=False), 0),
        Curve("zero_grad", steps, losses(clears=True), 1),
    ]
    drawing.chart("zero-grad-losses", Curves("Loss over the steps", "step", curves, limits=(0, 5)))


def watched(loop: Any) -> Any:
    """A short run of a small network under the doctor."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = torch.randn(32, 4), torch.randn(32, 1)
    with doctor.watch(model, optimizer, warn=False) as session:
        loop(model, optimizer, lambda: F.mse_loss(model(x), y))
    return session


def forgetful(model: Any, optimizer: Any, loss: Any) -> None:
    for _ in range(4):
        loss().backward()
        optimizer.step()


def right(model: Any, optimizer: Any, loss: Any) -> None:
    for _ in range(4):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def accumulating(model: Any, optimizer: Any, loss: Any) -> None:
    for _ in range(2):
        for _ in range(4):
            (loss() / 4).backward()
        optimizer.step()
        optimizer.zero_grad()


def clipped(model: Any, optimizer: Any, loss: Any) -> None:
    for _ in range(4):
        optimizer.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()


def draw_graph() -> None:
    """One weight that two layers use: backward brings it two gradients."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Tanh(), nn.Linear(3, 3, bias=False))
    model[2].weight = model[0].weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Lesson(warn=False).attach(model, optimizer) as lesson:
        optimizer.zero_grad()
        model(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()
    drawing.graph("two-uses", lesson.graph)


def draw_unequal_batches() -> None:
    """How far two ways of accumulating are from the gradient of the large batch."""
    torch.manual_seed(0)
    model = nn.Linear(16, 10)
    sizes = list(range(8, 257, 8))
    means, windows = [], []
    for size in sizes:
        batches = [(torch.randn(n, 16), torch.randint(0, 10, (n,))) for n in (8, 8, 8, size)]
        whole = F.cross_entropy(model(torch.cat([x for x, _ in batches])), torch.cat([y for _, y in batches]))
        (wanted,) = torch.autograd.grad(whole, [model.weight])
        mean = sum(F.cross_entropy(model(x), y) for x, y in batches) / 4
        (found,) = torch.autograd.grad(mean, [model.weight])
        means.append(100 * ((found - wanted).norm() / wanted.norm()).item())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for window in torch.accumulate(batches, 4, optimizer):
            for x, y in window:
                window.backward(F.cross_entropy(model(x), y), count=len(y))
            windows.append(100 * ((model.weight.grad - wanted).norm() / wanted.norm()).item())
            window.step()
    curves = [Curve("loss / 4", sizes, means, 0), Curve("accumulate", sizes, windows, 1)]
    drawing.chart(
        "unequal-batches",
        Curves("Error of the gradient by size of the fourth batch", "rows", curves, unit="%"),
    )


def draw_clipping() -> None:
    """Gradient norms before and after clipping of a recurrent network that sums long sequences."""
    torch.manual_seed(4)
    network, head = nn.RNN(1, 32, batch_first=True), nn.Linear(32, 1)
    parameters = [*network.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.3)
    before, after = [], []
    for _ in range(150):
        x = torch.randn(16, 60, 1)
        optimizer.zero_grad()
        F.mse_loss(head(network(x)[0][:, -1]), x.sum(1) / 8).backward()
        before.append(nn.utils.clip_grad_norm_(parameters, 0.25).item())
        after.append(nn.utils.get_total_norm([p.grad for p in parameters]).item())
        optimizer.step()
    steps = list(range(1, 151))
    curves = [Curve("before", steps, before, 0), Curve("after clipping", steps, after, 1)]
    drawing.chart("clipping-norms", Curves("Norm of all gradients over the steps", "step", curves, True))


def draw_scaling() -> None:
    """Which gradients survive in float16, by the factor that the loss was multiplied with."""
    images, labels = digits()
    model, optimizer = classifier()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(1000):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    gradients = np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])
    gradients = gradients[gradients != 0]
    powers = list(range(35))
    with np.errstate(over="ignore"):
        scaled = [(gradients * 2.0**power).astype(np.float16) for power in powers]
    zeros = [100 * float((values == 0).mean()) for values in scaled]
    infinite = [100 * float(np.isinf(values).mean()) for values in scaled]
    curves = [Curve("become zero", powers, zeros, 0), Curve("become infinite", powers, infinite, 3)]
    chart = Curves("Gradients that float16 loses, by scale", "power", curves, unit="%")
    drawing.chart("float16-scale", chart)


def main() -> None:
    draw_losses()
    drawing.buckets("bucket-forgotten", watched(forgetful))
    drawing.buckets("bucket-cleared", watched(right))
    drawing.buckets("bucket-accumulated", watched(accumulating))
    drawing.buckets("bucket-clipped", watched(clipped))
    draw_graph()
    draw_unequal_batches()
    draw_clipping()
    draw_scaling()


if __name__ == "__main__":
    main()
