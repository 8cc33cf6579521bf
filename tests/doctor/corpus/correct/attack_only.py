"""Correct as well: attack only."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
model.requires_grad_(False)
x, y = torch.randn(4, 5), torch.randint(0, 2, (4,))
delta = torch.zeros_like(x, requires_grad=True)
opt = torch.optim.SGD([delta], lr=0.1)
for _ in range(6):
    opt.zero_grad()
    loss = -nn.functional.cross_entropy(model(x + delta), y)
    loss.backward()
    delta.grad.sign_()
    opt.step()
    delta.data.clamp_(-0.2, 0.2)
