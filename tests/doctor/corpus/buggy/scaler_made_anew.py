"""A new scaler in every iteration never learns a scale."""

# any-line: scaler-misused
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _ in range(6):
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
