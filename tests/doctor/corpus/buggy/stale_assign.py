"""Another mistake: stale assign."""
# companions: step-without-gradient

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))
checkpoint = {k: v.clone() for k, v in model.state_dict().items()}
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
model.load_state_dict(checkpoint, assign=True)
for _ in range(5):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(torch.randn(6, 5)), torch.ones(6, 1)).backward()
    optimizer.step()  # <- optimizer-stale-parameter
