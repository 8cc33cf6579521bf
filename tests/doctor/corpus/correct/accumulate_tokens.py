"""Correct as well: accumulate tokens."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 3)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(3):
    pending = 0
    for i in range(11):
        n = 3 + i % 4
        loss = (
            nn.functional.cross_entropy(model(torch.randn(n, 5)), torch.randint(0, 3, (n,)), reduction="sum")
            / 16
        )
        loss.backward()
        pending += n
        if pending >= 16:
            opt.step()
            opt.zero_grad()
            pending = 0
    if pending:
        opt.step()
        opt.zero_grad()
