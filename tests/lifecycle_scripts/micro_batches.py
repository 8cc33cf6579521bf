"""Gradient accumulation: several small batches, one step."""

import copy

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
data = TensorDataset(torch.randn(20, 5), torch.randn(20, 1))
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1))
whole = copy.deepcopy(model)
criterion = nn.MSELoss()

accumulate = 4
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
optimizer.zero_grad()
for number, (x, y) in enumerate(DataLoader(data, batch_size=5), start=1):
    loss = criterion(model(x), y) / accumulate
    loss.backward()
    print(f"batch {number}, loss {loss.item():.6f}, norm {model[0].weight.grad.norm():.6f}")
    if number % accumulate == 0:
        large = criterion(whole(data.tensors[0]), data.tensors[1])
        large.backward()
        print(
            [
                torch.allclose(p.grad, q.grad, atol=1e-7)
                for p, q in zip(model.parameters(), whole.parameters())
            ]
        )
        optimizer.step()
        optimizer.zero_grad()

# Seven batches of three and one of two: the last window is short, and so is the last batch in it.
loader = DataLoader(data, batch_size=3, shuffle=True)
print(len(loader))
for epoch in range(3):
    total = 0.0
    for number, (x, y) in enumerate(loader, start=1):
        loss = criterion(model(x), y)
        (loss / accumulate).backward()
        total += loss.item() * len(x)
        if number % accumulate == 0 or number == len(loader):
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            print(f"  step after batch {number}, norm {norm:.6f}")
    print(f"epoch {epoch + 1}, loss {total / len(data):.6f}")
