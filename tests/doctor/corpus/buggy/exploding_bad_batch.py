"""One batch is not normalized."""

# companions: non-finite-gradient
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(10):
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    if step == 7:
        x = x * 1e5
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # <- gradient-exploding
    optimizer.step()
