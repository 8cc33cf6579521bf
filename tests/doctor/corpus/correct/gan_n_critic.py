"""WGAN with five critic steps per generator step and weight clipping."""

import torch
from torch import nn

torch.manual_seed(0)
G, C = nn.Linear(2, 4), nn.Linear(4, 1)
opt_g, opt_c = torch.optim.RMSprop(G.parameters(), lr=1e-3), torch.optim.RMSprop(C.parameters(), lr=1e-3)
for i in range(20):
    opt_c.zero_grad()
    loss = C(G(torch.randn(8, 2)).detach()).mean() - C(torch.randn(8, 4)).mean()
    loss.backward()
    opt_c.step()
    for p in C.parameters():
        p.data.clamp_(-0.01, 0.01)
    if i % 5 == 4:
        opt_g.zero_grad()
        (-C(G(torch.randn(8, 2))).mean()).backward()
        opt_g.step()
