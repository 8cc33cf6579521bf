"""log of a probability that becomes 0."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    if step == 2:
        x = x * 1e4
    p = torch.softmax(model(x), dim=1)
    loss = -torch.log(p[torch.arange(8), y]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- non-finite-gradient
