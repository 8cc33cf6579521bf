"""Groups are added, emptied, re-rated by hand; a head is dropped from training on purpose."""

import torch
from torch import nn

torch.manual_seed(0)
body, old, new = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = torch.optim.SGD([{"params": body.parameters()}, {"params": old.parameters(), "lr": 0.1}], lr=0.01)
for i in range(20):
    if i == 10:
        optimizer.param_groups.pop()
        optimizer.add_param_group({"params": new.parameters(), "lr": 0.1})
    for group in optimizer.param_groups:
        group["lr"] *= 0.95
    head = old if i < 10 else new
    optimizer.zero_grad()
    head(torch.relu(body(torch.randn(8, 4)))).pow(2).mean().backward()
    optimizer.step()
