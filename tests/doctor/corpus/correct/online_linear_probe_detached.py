"""A probe is trained on detached features next to an autoencoder, so that it does not disturb the encoder,
which has its own loss.
"""

import torch
import torch.nn as nn

torch.manual_seed(0)
enc = nn.Sequential(nn.Linear(10, 6), nn.Tanh())
dec = nn.Linear(6, 10)
probe = nn.Linear(6, 2)
opt = torch.optim.Adam(list(enc.parameters()) + list(dec.parameters()), lr=1e-2)
probe_opt = torch.optim.SGD(probe.parameters(), lr=0.1)
for step in range(15):
    x = torch.randn(32, 10)
    y = (x[:, 0] > 0).long()
    h = enc(x)
    opt.zero_grad()
    rec = nn.functional.mse_loss(dec(h), x)
    rec.backward()
    opt.step()
    probe_opt.zero_grad()
    ce = nn.functional.cross_entropy(probe(h.detach()), y)
    ce.backward()
    probe_opt.step()
print(rec.item(), ce.item())
