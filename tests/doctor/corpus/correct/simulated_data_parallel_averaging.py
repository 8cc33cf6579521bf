"""Replicas get their own backward; their gradients are averaged by hand into the main model, whose optimizer
steps; replicas are re-synced.
"""

import copy

import torch
from torch import nn

torch.manual_seed(0)
main_model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
replicas = [copy.deepcopy(main_model) for _ in range(3)]
opt = torch.optim.AdamW(main_model.parameters(), lr=1e-2)
for it in range(12):
    for r in replicas:
        r.load_state_dict(main_model.state_dict())
        r.zero_grad()
        x = torch.randn(8, 6)
        nn.functional.cross_entropy(r(x), (x[:, 0] > 0).long()).backward()
    for p, *qs in zip(main_model.parameters(), *[r.parameters() for r in replicas]):
        p.grad = torch.stack([q.grad for q in qs]).mean(0)
    opt.step()
