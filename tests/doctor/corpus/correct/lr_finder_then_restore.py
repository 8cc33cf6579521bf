"""An LR range test trains a while, then model and a fresh optimizer start again from the saved state."""

import copy

import torch
from torch import nn


def batch():
    x = torch.randn(16, 5)
    return x, x.sum(1, keepdim=True)


def lr_find(model, steps=12, lo=1e-5, hi=0.3):
    saved = copy.deepcopy(model.state_dict())
    opt = torch.optim.SGD(model.parameters(), lr=lo)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, (hi / lo) ** (1 / steps))
    best = (float("inf"), lo)
    for _ in range(steps):
        x, y = batch()
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        best = min(best, (loss.item(), opt.param_groups[0]["lr"]))
        sched.step()
    model.load_state_dict(saved)
    model.zero_grad()
    return best[1] / 10


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=lr_find(model), momentum=0.9)
for _ in range(12):
    x, y = batch()
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step()
print(loss.item())
