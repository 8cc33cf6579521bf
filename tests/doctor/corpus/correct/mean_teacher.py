"""Correct as well: mean teacher."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 2))
teacher = copy.deepcopy(student)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(8):
    x, y = torch.randn(8, 5), torch.randint(0, 2, (8,))
    loss = nn.functional.cross_entropy(student(x), y) + nn.functional.mse_loss(
        student(x), teacher(x).detach()
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.data.mul_(0.99).add_(s.data, alpha=0.01)
