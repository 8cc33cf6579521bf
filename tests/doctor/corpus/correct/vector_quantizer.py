"""A codebook that is part of the model, but updated by averages and not by gradients."""

import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(4, 2), nn.Linear(2, 4)
        self.codes = nn.Embedding(5, 2)

    def forward(self, x):
        z = self.encode(x)
        nearest = (z.detach()[:, None] - self.codes.weight.data).pow(2).sum(-1).argmin(1)
        code = self.codes.weight.data[nearest]
        if self.training:
            for k in nearest.unique():
                self.codes.weight.data[k].lerp_(z.detach()[nearest == k].mean(0), 0.1)
        return self.decode(z + (code - z).detach()), z, code


torch.manual_seed(0)
model = Quantizer()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(6):
    x = torch.randn(16, 4)
    y, z, code = model(x)
    loss = nn.functional.mse_loss(y, x) + 0.25 * nn.functional.mse_loss(z, code)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
