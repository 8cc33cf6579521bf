"""Another mistake: nonfinite norm div."""

import torch
from torch import nn

torch.manual_seed(0)
emb = nn.Embedding(6, 3)
with torch.no_grad():
    emb.weight[4] = 0
opt = torch.optim.Adam(emb.parameters(), lr=1e-3)
for i in range(4):
    e = emb(torch.tensor([i, i + 1, i + 2]))
    e = e / torch.sqrt((e * e).sum(1, keepdim=True))
    loss = (e @ e.T).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()  # <- non-finite-gradient
