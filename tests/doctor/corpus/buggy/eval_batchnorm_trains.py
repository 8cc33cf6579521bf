"""Only the BatchNorm layers are in eval mode, but their scale and shift are trained."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model.train()
for module in model.modules():
    if isinstance(module, nn.BatchNorm2d):
        module.eval()  # <- eval-mode-training
for _ in range(4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(4, 1, 6, 6)), torch.randint(0, 2, (4,))).backward()
    optimizer.step()
