"""Accumulation that clears in every micro-batch: only the last one counts."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1))
loader = DataLoader(data, batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
accumulate = 4
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()  # <- gradient-discarded
    loss = nn.functional.mse_loss(model(x), y) / accumulate
    loss.backward()
    if (i + 1) % accumulate == 0:
        optimizer.step()
