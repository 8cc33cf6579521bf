"""A NaN in the data, in the third batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(24, 4)
x[17, 2] = float("nan")
loader = DataLoader(TensorDataset(x, torch.randn(24, 1)), batch_size=6)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for inputs, targets in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()  # <- non-finite-gradient
