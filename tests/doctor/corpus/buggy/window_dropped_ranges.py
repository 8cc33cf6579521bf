"""Ten slices in windows of four: the last two of each epoch are thrown away. No DataLoader."""

import torch
from torch import nn

torch.manual_seed(0)
data, target = torch.randn(80, 5), torch.randn(80, 1)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(4):
    optimizer.zero_grad()  # <- window-dropped
    for i, begin in enumerate(range(0, 80, 8)):
        loss = nn.functional.mse_loss(model(data[begin : begin + 8]), target[begin : begin + 8]) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
