"""Methods without an optimizer that keep their gradients on purpose, or clear them in ways of their own."""

import torch

torch.manual_seed(0)
x = torch.randn(64, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5])

# Dual averaging: the gradient is the sum over all steps, and the weights are set from it anew.
w = torch.zeros(3, requires_grad=True)
for _ in range(8):
    ((x @ w - y) ** 2).mean().backward()
    w.data = -0.02 * w.grad

# Heavy ball: the gradient is the velocity, shrunk by hand before the next pass adds to it.
w = torch.zeros(3, requires_grad=True)
for _ in range(8):
    ((x @ w - y) ** 2).mean().backward()
    with torch.no_grad():
        w -= 0.02 * w.grad
        w.grad *= 0.9

# Plain descent on accumulated gradients: two passes, one update, one clear.
w = torch.zeros(3, requires_grad=True)
for number in range(8):
    ((x @ w - y) ** 2).mean().backward()
    if number % 2:
        w.data -= 0.05 * w.grad
        w.grad = None

# A saliency map: gradients add up and nothing moves.
image = torch.randn(3, requires_grad=True)
for _ in range(4):
    (image * w.detach()).sum().backward()
