"""Validation, Monte-Carlo dropout, saliency and train/eval toggles in between."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(5):
    model.train()
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        model(torch.randn(8, 4))
    x = torch.randn(1, 4, requires_grad=True)
    model(x)[0, 0].backward()
    print(x.grad.abs().max().item())
    for module in model:
        if isinstance(module, nn.Dropout):
            module.train()
    with torch.no_grad():
        print(torch.stack([model(x) for _ in range(4)]).std(0).mean().item())
