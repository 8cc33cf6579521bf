"""A learning rate that is too large for the data: gradients grow with every step."""

# companions: non-finite-gradient
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(32, 8) * 10
y = x.sum(1, keepdim=True)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for _ in range(10):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()  # <- gradient-exploding
    optimizer.step()
