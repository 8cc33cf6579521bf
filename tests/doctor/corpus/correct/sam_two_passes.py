"""Sharpness-aware minimization: a step up, a second gradient, a step from the old place."""

import torch
from torch import nn


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **options):
        super().__init__(params, dict(rho=rho, **options))
        self.base = base(self.param_groups, **options)

    @torch.no_grad()
    def first_step(self):
        norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.detach().clone()
                p.add_(p.grad * group["rho"] / (norm + 1e-12))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p]["old"])
        self.base.step()
        self.zero_grad()


torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1)
for _ in range(6):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.first_step()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.second_step()
