"""Another mistake: scheduler epoch once."""

import torch
from torch import nn


def train_one_epoch(model, opt, sched):
    sched.step()  # <- scheduler-misplaced
    for _ in range(3):
        opt.zero_grad()
        model(torch.randn(6, 4)).pow(2).mean().backward()
        opt.step()


torch.manual_seed(0)
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
train_one_epoch(model, opt, torch.optim.lr_scheduler.ExponentialLR(opt, 0.5))
