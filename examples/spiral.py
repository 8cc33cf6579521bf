"""Trains a small network to tell the arms of a spiral apart, then shows what a forgotten zero_grad does.

    python examples/spiral.py
    python examples/spiral.py --compile

Nothing but tensors and autograd: the weights are tensors, the training step is five lines. Change the import
to `import torch` and it prints the same numbers.
"""

import itertools
import math
import sys
import time

import cleargrad as torch

ARMS, POINTS = 3, 200


def spiral() -> tuple:
    """Points on three arms, and the arm of each."""
    points, labels = [], []
    for arm in range(ARMS):
        radius = torch.linspace(0.05, 1.0, POINTS)
        angle = arm * 2 * math.pi / ARMS + 4 * radius + 0.15 * torch.randn(POINTS)
        points.append(torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1))
        labels.append(torch.full((POINTS,), arm))
    return torch.cat(points), torch.cat(labels)


def make_weights() -> list:
    sizes = [2, 64, 64, ARMS]
    weights = []
    for inputs, outputs in itertools.pairwise(sizes):
        weights.append((torch.randn(inputs, outputs) * math.sqrt(2 / inputs)).requires_grad_())
        weights.append(torch.zeros(outputs, requires_grad=True))
    return weights


def forward(weights: list, x):
    w1, b1, w2, b2, w3, b3 = weights
    hidden = torch.relu(x @ w1 + b1)  # (600, 64)
    hidden = torch.relu(hidden @ w2 + b2)  # (600, 64)
    return hidden @ w3 + b3  # (600, 3)


def update(weights: list, x, y, clear_gradients: bool) -> tuple:
    """One step; without clear_gradients, `.grad` keeps what earlier steps left in it."""
    logits = forward(weights, x)
    loss = torch.nn.functional.cross_entropy(logits, y)
    loss.backward()
    with torch.no_grad():
        for weight in weights:
            weight -= 0.3 * weight.grad
            if clear_gradients:
                weight.grad = None
    return loss, logits


def train(steps: int, clear_gradients: bool, compiled: bool) -> list:
    """The losses of a run."""
    torch.manual_seed(0)
    x, y = spiral()
    weights = make_weights()
    step_once = torch.compile(update) if compiled else update
    losses = []
    for step in range(steps):
        loss, logits = step_once(weights, x, y, clear_gradients)
        losses.append(loss.item())
        if (step + 1) % 100 == 0 and clear_gradients:
            accuracy = (logits.argmax(dim=1) == y).float().mean().item()
            print(f"step {step + 1:4d}   loss {loss.item():.4f}   accuracy {accuracy:.1%}")
    return losses


def main() -> None:
    compiled = "--compile" in sys.argv
    steps = next((int(argument) for argument in sys.argv[1:] if argument.isdigit()), 500)
    print(f"Training a network of 3 layers on {ARMS * POINTS} points of a spiral, {steps} steps.\n")
    start = time.perf_counter()
    right = train(steps, clear_gradients=True, compiled=compiled)
    print(f"\n{steps} steps in {time.perf_counter() - start:.1f} s, loss {right[0]:.3f} -> {right[-1]:.3f}")
    wrong = train(steps, clear_gradients=False, compiled=compiled)
    print(f"The same without clearing .grad:  loss {wrong[0]:.3f} -> {wrong[-1]:.3f}")
    print("\nbackward() adds to .grad: a step that does not clear it uses every old gradient again.")


if __name__ == "__main__":
    main()
