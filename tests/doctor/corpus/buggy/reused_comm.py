"""Another mistake: reused comm."""

import torch

torch.manual_seed(0)
w = torch.randn(4, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
opt = torch.optim.SGD([w, b], lr=0.01)
X, Y = torch.randn(20, 4), torch.randn(20, 1)
for i in range(6):
    pred = X @ w + b
    ((pred - Y) ** 2).mean().backward()
    opt.step()  # <- gradient-reused
