"""Another mistake: lost half."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(16, 4, bias=False).bfloat16()
opt = torch.optim.AdamW(net.parameters(), lr=1e-7, weight_decay=0.0)
with torch.no_grad():
    net.weight.uniform_(0.5, 1.0)
for _ in range(6):
    loss = net(torch.randn(4, 16).bfloat16()).float().pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()  # <- update-lost
