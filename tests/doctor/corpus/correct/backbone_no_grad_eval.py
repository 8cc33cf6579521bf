"""The backbone runs under no_grad in eval mode, though the optimizer has all parameters."""

import torch
from torch import nn


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        self.backbone.eval()
        with torch.no_grad():
            h = self.backbone(x)
        return self.head(h)


torch.manual_seed(0)
model = Probe()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(6):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
    optimizer.step()
