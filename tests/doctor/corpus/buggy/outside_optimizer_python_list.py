"""Layers in a plain list are no submodules; the optimizer never sees them."""

# companions: outside-accumulation
import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = [nn.Linear(4, 4) for _ in range(depth)]
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


torch.manual_seed(0)
model = Stack(2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # <- parameter-not-in-optimizer
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
