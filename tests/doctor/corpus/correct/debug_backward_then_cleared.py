"""A sanity-check backward runs before training to see that gradients flow, and is cleared before the first
real batch.
"""

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.1)

check = model(torch.randn(2, 5)).sum()
check.backward()
assert all(p.grad is not None for p in model.parameters())
for p in model.parameters():
    p.grad = None

for step in range(14):
    x = torch.randn(20, 5)
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
    loss.backward()
    opt.step()
    for p in model.parameters():
        p.grad = None
print(loss.item())
