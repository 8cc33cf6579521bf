"""Another mistake: scheduler with scaler."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=20)
scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
for _ in range(6):
    opt.zero_grad()
    loss = model(torch.randn(6, 5)).pow(2).mean()
    scaler.scale(loss).backward()
    sched.step()  # <- scheduler-misplaced
    scaler.step(opt)
    scaler.update()
