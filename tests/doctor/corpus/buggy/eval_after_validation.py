"""model.eval() for validation, and never model.train() again."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model.train()
for epoch in range(3):
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
    model.eval()  # <- eval-mode-training
    with torch.no_grad():
        print(model(torch.randn(8, 4)).mean().item())
