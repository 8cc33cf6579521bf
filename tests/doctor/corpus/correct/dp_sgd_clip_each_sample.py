"""DP-SGD clips the gradient of every single sample before adding it to a buffer; the noisy mean is assigned
to .grad.
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
C, sigma, B = 1.0, 0.5, 8
for step in range(8):
    x = torch.randn(B, 6)
    y = (x[:, 0] > 0).long()
    summed = [torch.zeros_like(p) for p in model.parameters()]
    for i in range(B):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), C)
        for s, p in zip(summed, model.parameters()):
            s += p.grad
    for s, p in zip(summed, model.parameters()):
        p.grad = (s + sigma * C * torch.randn_like(s)) / B
    opt.step()
