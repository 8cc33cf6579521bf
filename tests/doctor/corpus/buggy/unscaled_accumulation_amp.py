"""The same with a GradScaler: the scale is not a division."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
for i in range(1, 13):
    loss = nn.functional.mse_loss(model(torch.randn(4, 4)), torch.randn(4, 1))
    scaler.scale(loss).backward()  # <- accumulation-unscaled
    if i % 3 == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
