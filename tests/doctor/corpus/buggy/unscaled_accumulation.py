"""Four averages are added up and nobody divides by four."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,))), batch_size=4)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for i, (x, y) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()  # <- accumulation-unscaled
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
