"""Another mistake: nonfinite exp."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):
    out = model(torch.randn(6, 3) * (1 if i < 2 else 500))
    e = out.exp()
    prob = e / e.sum(1, keepdim=True)
    loss = -prob.log().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()  # <- non-finite-gradient
