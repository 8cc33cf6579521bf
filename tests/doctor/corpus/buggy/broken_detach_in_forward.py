"""detach() in forward cuts off the encoder."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.decoder = nn.Linear(8, 4)

    def forward(self, x):
        code = self.encoder(x).detach()  # <- graph-broken
        return self.decoder(code)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(5):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x).backward()
    optimizer.step()
