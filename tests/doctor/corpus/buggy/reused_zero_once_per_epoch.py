"""zero_grad stands in the epoch loop, not in the batch loop."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_epoch(model, loader, optimizer, criterion):
    model.train()
    optimizer.zero_grad()
    running = 0.0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()  # <- gradient-reused
        running += loss.item()
    return running / len(loader)


torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 4), torch.randint(0, 3, (32,)))
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
adam = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(2):
    train_epoch(net, DataLoader(data, batch_size=8), adam, nn.CrossEntropyLoss())
