"""Clipping by value, gradients cleared to zeros at the end of each round."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.GRU(4, 6, batch_first=True)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
optimizer.zero_grad(set_to_none=False)
for _ in range(12):
    out, _ = model(torch.randn(3, 5, 4))
    out.pow(2).mean().backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
