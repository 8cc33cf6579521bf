"""GradCache: the loss of a whole batch, its gradient replayed chunk by chunk."""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(4, 3)
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-2)
for _ in range(5):
    chunks = torch.randn(12, 4).split(4)
    with torch.no_grad():
        codes = torch.cat([encoder(chunk) for chunk in chunks])
    codes = codes.requires_grad_()
    nn.functional.cross_entropy(codes @ codes.T, torch.arange(12)).backward()
    optimizer.zero_grad()
    for chunk, cached in zip(chunks, codes.grad.split(4)):
        (encoder(chunk) * cached).sum().backward()
    optimizer.step()
