"""Correct as well: sac alpha."""

import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 2), nn.Linear(5, 1)
log_alpha = torch.zeros(1, requires_grad=True)
oa, oc, ol = (
    torch.optim.Adam(actor.parameters()),
    torch.optim.Adam(critic.parameters()),
    torch.optim.Adam([log_alpha]),
)
for _ in range(6):
    s, a, r = torch.randn(8, 3), torch.randn(8, 2), torch.randn(8, 1)
    oc.zero_grad()
    nn.functional.mse_loss(critic(torch.cat([s, a], 1)), r).backward()
    oc.step()
    for p in critic.parameters():
        p.requires_grad = False
    oa.zero_grad()
    new = torch.tanh(actor(s))
    logp = -new.pow(2).sum(1, keepdim=True)
    (log_alpha.exp().detach() * logp - critic(torch.cat([s, new], 1))).mean().backward()
    oa.step()
    for p in critic.parameters():
        p.requires_grad = True
    ol.zero_grad()
    (-(log_alpha * (logp.detach() + 2))).mean().backward()
    ol.step()
