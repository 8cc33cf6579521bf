"""Another mistake: vanish rnn."""

import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        for i in range(10):
            setattr(self, f"fc{i}", nn.Linear(10, 10))
        self.out = nn.Linear(10, 1)

    def forward(self, x):
        for i in range(10):
            x = torch.sigmoid(getattr(self, f"fc{i}")(x))
        return self.out(x)


torch.manual_seed(0)
net = Deep()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(5):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(torch.randn(16, 10)), torch.ones(16, 1))
    loss.backward()  # <- gradient-vanishing
    opt.step()
