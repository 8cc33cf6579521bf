"""The loader's length is no multiple of the accumulation: the rest leaks into the next epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(40, 4), torch.randn(40, 1)), batch_size=4)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
accumulate = 4
for epoch in range(3):
    for i, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y) / accumulate
        loss.backward()
        if (i + 1) % accumulate == 0:
            optimizer.step()  # <- window-leak
            optimizer.zero_grad()
