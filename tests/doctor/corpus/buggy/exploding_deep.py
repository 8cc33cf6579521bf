"""Another mistake: exploding deep."""
# companions: non-finite-gradient

import torch
from torch import nn

torch.manual_seed(0)
layers = []
for _ in range(20):
    layer = nn.Linear(32, 32)
    nn.init.normal_(layer.weight, std=1.0)
    layers += [layer, nn.ReLU()]
model = nn.Sequential(*layers, nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(5):
    opt.zero_grad()
    loss = nn.functional.mse_loss(model(torch.randn(8, 32)), torch.zeros(8, 1))
    loss.backward()  # <- gradient-exploding
    opt.step()
