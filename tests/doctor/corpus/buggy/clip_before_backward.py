"""Clipping before there is anything to clip."""

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).pow(2).mean()
    clip_grad_norm_(model.parameters(), max_norm=1.0)  # <- clip-misplaced
    loss.backward()
    optimizer.step()
