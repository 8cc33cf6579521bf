"""Two heads with optimizers of their own, stepped one after the other; the shared body collects both losses."""

import torch
from torch import nn

torch.manual_seed(0)
body, head_a, head_b = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
opt_body = torch.optim.SGD(body.parameters(), lr=0.01)
opt_a, opt_b = torch.optim.SGD(head_a.parameters(), lr=0.1), torch.optim.SGD(head_b.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(8, 4)
    opt_body.zero_grad()
    opt_a.zero_grad()
    head_a(torch.relu(body(x))).pow(2).mean().backward()
    opt_a.step()
    opt_b.zero_grad()
    head_b(torch.relu(body(x))).abs().mean().backward()
    opt_b.step()
    opt_body.step()
