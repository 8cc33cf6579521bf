"""A recurrent net with large weights over many time steps, without clipping."""

import torch
from torch import nn

torch.manual_seed(0)
w = nn.Parameter(torch.eye(6) * 2.5)
readout = nn.Linear(6, 1)
optimizer = torch.optim.Adam([w, *readout.parameters()], lr=1e-3)
for _ in range(5):
    h = torch.randn(4, 6)
    for _ in range(30):
        h = h @ w
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(readout(h), torch.zeros(4, 1))
    loss.backward()  # <- gradient-exploding
    optimizer.step()
