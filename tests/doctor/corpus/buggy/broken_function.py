"""Another mistake: broken function."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.value = nn.Linear(4, 1), nn.Linear(4, 4)

    def forward(self, x):
        weights = torch.softmax(self.score(x).data, dim=1)  # <- graph-broken
        return (weights * self.value(x)).sum(1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend, self.out = Attention(), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.attend(x))


torch.manual_seed(0)
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(5):
    opt.zero_grad()
    nn.functional.cross_entropy(model(torch.randn(3, 5, 4)), torch.randint(0, 2, (3,))).backward()
    opt.step()
