"""A large embedding of which every batch touches a few rows; sparse gradients for another."""

import torch
from torch import nn

torch.manual_seed(0)
words, users, out = nn.Embedding(20_000, 8), nn.Embedding(50, 8, sparse=True), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*words.parameters(), *out.parameters()], lr=0.1)
sparse = torch.optim.SGD(users.parameters(), lr=1e-2)
for _ in range(6):
    h = words(torch.randint(0, 20_000, (4, 3))).mean(1) + users(torch.randint(0, 50, (4,)))
    optimizer.zero_grad()
    sparse.zero_grad()
    out(h).sub(1).pow(2).mean().backward()
    optimizer.step()
    sparse.step()
