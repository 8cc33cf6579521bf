"""On a bad epoch the trainer rolls back to a deep copy of the best model, but the optimizer keeps updating
the old object.
"""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_epoch(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        model.zero_grad()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    x = torch.randn(64, 6)
    y = (x[:, :1] - x[:, 1:2]).abs()
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    best, best_loss = copy.deepcopy(model), float("inf")
    for epoch in range(8):
        loss = train_epoch(model, loader, optimizer)
        diverged = epoch == 2  # the scheduled rollback test
        if diverged:
            model = copy.deepcopy(best)  # <- optimizer-stale-parameter
        elif loss < best_loss:
            best, best_loss = copy.deepcopy(model), loss
        print(epoch, loss)


main()
