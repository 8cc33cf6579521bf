"""`params` is a generator that the optimizer has used up."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
params = model.parameters()
optimizer = torch.optim.SGD(params, lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0)  # <- clip-nothing
    optimizer.step()
