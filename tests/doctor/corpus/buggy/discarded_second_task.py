"""Two tasks share a trunk; the zero_grad between their backward calls throws the first one's gradients away."""

import torch
from torch import nn

torch.manual_seed(0)
trunk, age, kind = nn.Sequential(nn.Linear(6, 16), nn.ReLU()), nn.Linear(16, 1), nn.Linear(16, 3)
parameters = [*trunk.parameters(), *age.parameters(), *kind.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3)
for step in range(8):
    x = torch.randn(12, 6)
    hidden = trunk(x)
    first = nn.functional.l1_loss(age(hidden).squeeze(1), x.mean(1))
    second = nn.functional.cross_entropy(kind(hidden), x[:, :3].argmax(1))
    optimizer.zero_grad()
    first.backward(retain_graph=True)
    optimizer.zero_grad()  # <- gradient-discarded
    second.backward()
    optimizer.step()
