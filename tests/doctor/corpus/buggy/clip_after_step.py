"""Clipping after the step has been made."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.LSTM(4, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    out, _ = model(torch.randn(6, 2, 4))
    out.pow(2).mean().backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <- clip-misplaced
