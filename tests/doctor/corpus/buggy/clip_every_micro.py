"""Another mistake: clip every micro."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.GRU(5, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(16):
    out, _ = model(torch.randn(3, 2, 5))
    (out.pow(2).sum() / 4).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # <- clip-misplaced
    if i % 4 == 3:
        opt.step()
        opt.zero_grad()
