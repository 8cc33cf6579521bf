"""Reptile trains deep copies with fresh inner optimizers and writes (theta - phi) into the meta model's .grad
by hand.
"""

import copy

import torch
from torch import nn


def task():
    amp, phase = torch.rand(1) * 4 + 0.5, torch.rand(1) * 3
    x = torch.rand(16, 1) * 6 - 3
    return x, amp * torch.sin(x + phase)


def inner_train(model, k=5):
    fast = copy.deepcopy(model)
    opt = torch.optim.SGD(fast.parameters(), lr=0.02)
    x, y = task()
    for _ in range(k):
        opt.zero_grad()
        loss = nn.functional.mse_loss(fast(x), y)
        loss.backward()
        opt.step()
    return fast, loss.item()


torch.manual_seed(0)
meta = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
meta_opt = torch.optim.Adam(meta.parameters(), lr=1e-2)
for it in range(12):
    fast, loss = inner_train(meta)
    meta_opt.zero_grad()
    for p, q in zip(meta.parameters(), fast.parameters()):
        p.grad = (p - q).detach()
    meta_opt.step()
print(loss)
