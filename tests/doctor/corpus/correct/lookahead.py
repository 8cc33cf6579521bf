"""Correct as well: lookahead."""

import torch
from torch import nn


class Lookahead:
    def __init__(self, base, k=3, alpha=0.5):
        self.base, self.k, self.alpha, self.n = base, k, alpha, 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in base.param_groups]

    def zero_grad(self):
        self.base.zero_grad()

    def step(self):
        self.base.step()
        self.n += 1
        if self.n % self.k == 0:
            for g, slow in zip(self.base.param_groups, self.slow):
                for p, s in zip(g["params"], slow):
                    s.add_(p.detach() - s, alpha=self.alpha)
                    p.data.copy_(s)


torch.manual_seed(0)
model = nn.Linear(5, 1)
opt = Lookahead(torch.optim.Adam(model.parameters(), lr=1e-2))
for _ in range(9):
    opt.zero_grad()
    model(torch.randn(6, 5)).pow(2).mean().backward()
    opt.step()
