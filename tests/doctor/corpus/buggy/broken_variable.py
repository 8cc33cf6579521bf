"""Another mistake: broken variable."""

import torch
from torch import nn
from torch.autograd import Variable

torch.manual_seed(0)
enc, dec = nn.Linear(5, 3), nn.Linear(3, 5)
opt = torch.optim.Adam(list(enc.parameters()) + list(dec.parameters()))
for _ in range(5):
    x = torch.randn(6, 5)
    z = enc(x)
    z = Variable(z.data, requires_grad=True)  # <- graph-broken
    loss = (dec(z) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
