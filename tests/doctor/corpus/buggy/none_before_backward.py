"""Another mistake: none before backward."""
# fails

import torch
from torch import nn


class Monitor:
    def __init__(self, model):
        self.model = model

    def log(self):
        for name, p in self.model.named_parameters():
            print(name, p.grad.abs().mean().item())  # <- none-gradient


torch.manual_seed(0)
model = nn.Linear(5, 1)
monitor = Monitor(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    loss = model(torch.randn(6, 5)).pow(2).mean()
    monitor.log()
    loss.backward()
    opt.step()
