"""The discriminator is frozen while the generator trains, and thawed again."""

import torch
from torch import nn

torch.manual_seed(0)
G, D = nn.Linear(2, 4), nn.Linear(4, 1)
opt_g, opt_d = (
    torch.optim.SGD(G.parameters(), lr=0.1, momentum=0.9),
    torch.optim.SGD(D.parameters(), lr=0.1, momentum=0.9),
)


def trainable(model, flag):
    for p in model.parameters():
        p.requires_grad = flag


for _ in range(6):
    trainable(D, True)
    opt_d.zero_grad()
    (
        nn.functional.softplus(-D(torch.randn(8, 4)))
        + nn.functional.softplus(D(G(torch.randn(8, 2)).detach()))
    ).mean().backward()
    opt_d.step()
    trainable(D, False)
    opt_g.zero_grad()
    nn.functional.softplus(-D(G(torch.randn(8, 2)))).mean().backward()
    opt_g.step()
