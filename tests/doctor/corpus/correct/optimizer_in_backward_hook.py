"""Each parameter is stepped in a hook as soon as its gradient is there."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}


def step_at_once(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(step_at_once)
for _ in range(6):
    model(torch.randn(8, 4)).pow(2).mean().backward()
