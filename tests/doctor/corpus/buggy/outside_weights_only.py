"""Another mistake: outside weights only."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
decay = [p for n, p in model.named_parameters() if n.endswith("weight")]
groups = [{"params": decay, "weight_decay": 0.1}]
optimizer = torch.optim.AdamW(groups, lr=1e-3)  # <- parameter-not-in-optimizer
for _ in range(5):
    model.zero_grad()
    nn.functional.mse_loss(model(torch.randn(6, 5)), torch.ones(6, 1)).backward()
    optimizer.step()
