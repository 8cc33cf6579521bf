"""Gradients are clipped by value after the step has used them."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.GRU(4, 8, batch_first=True)
head = nn.Linear(8, 1)
params = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.RMSprop(params, lr=1e-3)
for _ in range(5):
    x = torch.randn(3, 6, 4)
    out, _ = model(x)
    loss = head(out[:, -1]).pow(2).mean()
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_value_(params, 0.5)  # <- clip-misplaced
