"""A backbone in eval thaws one block per epoch; each block comes as a group with a smaller rate."""

import torch
from torch import nn

torch.manual_seed(0)
blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU()) for _ in range(3)])
head = nn.Linear(4, 2)
for p in blocks.parameters():
    p.requires_grad = False
blocks.eval()
optimizer = torch.optim.SGD(head.parameters(), lr=0.05, momentum=0.9)
for epoch in range(4):
    if epoch > 0:
        block = blocks[3 - epoch]
        block.train()
        for p in block.parameters():
            p.requires_grad = True
        optimizer.add_param_group({"params": block.parameters(), "lr": 0.05 / 2**epoch})
    for _ in range(5):
        h = torch.randn(8, 4)
        for block in blocks:
            h = block(h)
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(h), torch.randint(0, 2, (8,))).backward()
        optimizer.step()
