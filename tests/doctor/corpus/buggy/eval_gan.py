"""Another mistake: eval gan."""

import torch
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(2, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
D = nn.Sequential(nn.Linear(3, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1))
og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())


def sample():
    G.eval()  # <- eval-mode-training
    with torch.no_grad():
        return G(torch.randn(4, 2))


for step in range(6):
    od.zero_grad()
    (D(G(torch.randn(8, 2)).detach()) - D(torch.randn(8, 3))).mean().backward()
    od.step()
    og.zero_grad()
    (-D(G(torch.randn(8, 2))).mean()).backward()
    og.step()
    if step == 1:
        sample()
