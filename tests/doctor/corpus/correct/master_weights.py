"""Weights in bfloat16, stepped as float32 masters and copied back."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1).to(torch.bfloat16)
masters = [p.detach().clone().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.SGD(masters, lr=0.1)
for _ in range(6):
    model.zero_grad()
    model(torch.randn(8, 4).to(torch.bfloat16)).float().pow(2).mean().backward()
    for master, p in zip(masters, model.parameters()):
        master.grad = p.grad.float()
    optimizer.step()
    with torch.no_grad():
        for master, p in zip(masters, model.parameters()):
            p.copy_(master)
