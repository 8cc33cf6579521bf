"""An auxiliary loss with weight 0 keeps all parameters in the graph."""

import torch
from torch import nn

torch.manual_seed(0)
body, main, aux = nn.Linear(4, 8), nn.Linear(8, 2), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD([*body.parameters(), *main.parameters(), *aux.parameters()], lr=0.1)
for _ in range(6):
    h = torch.relu(body(torch.randn(8, 4)))
    loss = nn.functional.cross_entropy(main(h), torch.randint(0, 2, (8,))) + 0.0 * aux(h).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
