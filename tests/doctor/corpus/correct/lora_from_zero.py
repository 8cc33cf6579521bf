"""LoRA: B starts at zero, so A has no gradient in the first step."""

import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base
        self.a, self.b = (
            nn.Parameter(torch.randn(rank, base.in_features)),
            nn.Parameter(torch.zeros(base.out_features, rank)),
        )
        base.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
model[0], model[2] = LoRA(model[0]), LoRA(model[2])
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for _ in range(6):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()
