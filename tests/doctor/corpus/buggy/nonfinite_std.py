"""Another mistake: nonfinite std."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
opt = torch.optim.Adam(model.parameters())
for i in range(4):
    x = torch.randn(6, 3)
    if i == 1:
        x[:, 1] = 0.5
    x = (x - x.mean(0)) / x.std(0)
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(x), torch.zeros(6, 1))
    loss.backward()
    opt.step()  # <- non-finite-gradient
