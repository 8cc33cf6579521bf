"""Correct as well: resume."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 2)


def epoch():
    for _ in range(3):
        opt.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        opt.step()
    sched.step()


epoch()
state = copy.deepcopy({"m": model.state_dict(), "o": opt.state_dict(), "s": sched.state_dict()})
model = nn.Linear(4, 1)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 2)
model.load_state_dict(state["m"])
opt.load_state_dict(state["o"])
sched.load_state_dict(state["s"])
epoch()
epoch()
