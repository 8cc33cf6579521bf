"""Transfer learning: a frozen backbone in eval mode, only the head is optimized."""

import torch
from torch import nn


class Transfer(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(8, 2)
        self.backbone.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        return self.head(self.backbone(x))


torch.manual_seed(0)
model = Transfer()
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
for _ in range(3):
    model.train()
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(torch.randn(4, 4))
