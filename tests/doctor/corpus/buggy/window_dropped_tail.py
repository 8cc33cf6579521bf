"""Every epoch begins with zero_grad, which throws away the rest of the one before."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(44, 4), torch.randn(44, 1)), batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    optimizer.zero_grad()  # <- window-dropped
    for i, (x, y) in enumerate(loader, start=1):
        (nn.functional.mse_loss(model(x), y) / 4).backward()
        if i % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
