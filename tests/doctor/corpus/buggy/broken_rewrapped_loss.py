"""The loss is made anew so that backward() does not complain."""

# companions: step-without-gradient
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    errors = (model(torch.randn(8, 4)) - 1).abs()
    loss = torch.tensor(errors.mean().item(), requires_grad=True)  # <- graph-broken
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
