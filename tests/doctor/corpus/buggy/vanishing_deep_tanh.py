"""Forty tanh layers with weights that are too small."""

# companions: update-lost
import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self, depth=40, width=16):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 2)
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=0.1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.out(x)


torch.manual_seed(0)
model = Deep()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for _ in range(6):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(0, 2, (8,)))
    optimizer.zero_grad()
    loss.backward()  # <- gradient-vanishing
    optimizer.step()
