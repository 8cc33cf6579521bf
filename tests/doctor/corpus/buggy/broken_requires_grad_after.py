"""Another mistake: broken requires grad after."""
# companions: step-without-gradient

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    pred = model(torch.randn(6, 4)).argmax(1).float()
    loss = (pred - 1).abs().mean()
    loss.requires_grad = True
    opt.zero_grad()
    loss.backward()  # <- graph-broken
    opt.step()
