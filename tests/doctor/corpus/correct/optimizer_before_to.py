"""The optimizer is made before the model is converted."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model = model.to(torch.float64).to("cpu")
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4, dtype=torch.float64)).pow(2).mean().backward()
    optimizer.step()
