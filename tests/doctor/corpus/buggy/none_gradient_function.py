"""A function stacks gradients that model.zero_grad() has set to None."""

# fails
import torch
from torch import nn


def flat_gradient(model):
    grads = [p.grad for p in model.parameters()]
    return torch.cat([g.flatten() for g in grads])  # <- none-gradient


torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    model.zero_grad()
    print(flat_gradient(model))
