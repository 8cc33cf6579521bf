"""A new optimizer and a new scheduler for every epoch, of another kind each time."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
for epoch, kind in enumerate((torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adam)):
    optimizer = kind(model.parameters(), lr=0.01 / (epoch + 1))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
        scheduler.step()
