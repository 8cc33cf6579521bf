"""MoCo: the key encoder follows the query encoder and receives no gradient; a queue of keys is kept."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
query = nn.Linear(4, 3)
key = copy.deepcopy(query)
for p in key.parameters():
    p.requires_grad = False
queue = nn.functional.normalize(torch.randn(16, 3), dim=1)
optimizer = torch.optim.SGD(query.parameters(), lr=0.05, momentum=0.9)
for _ in range(6):
    x = torch.randn(8, 4)
    q = nn.functional.normalize(query(x + 0.1 * torch.randn_like(x)), dim=1)
    with torch.no_grad():
        for a, b in zip(key.parameters(), query.parameters()):
            a.data = a.data * 0.99 + b.data * 0.01
        k = nn.functional.normalize(key(x), dim=1)
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], 1) / 0.1
    loss = nn.functional.cross_entropy(logits, torch.zeros(8, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    queue = torch.cat([k, queue])[:16]
