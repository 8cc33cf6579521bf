"""SimSiam: both branches share their weights, the target is detached."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, predictor = nn.Linear(4, 6), nn.Linear(6, 6)
optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.05)
for _ in range(6):
    x = torch.randn(8, 4)
    z1, z2 = encoder(x + 0.1 * torch.randn_like(x)), encoder(x + 0.1 * torch.randn_like(x))
    p1, p2 = predictor(z1), predictor(z2)
    loss = (
        -(
            nn.functional.cosine_similarity(p1, z2.detach()).mean()
            + nn.functional.cosine_similarity(p2, z1.detach()).mean()
        )
        / 2
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
