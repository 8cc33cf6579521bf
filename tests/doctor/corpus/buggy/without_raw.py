"""Another mistake: without raw."""

import torch

torch.manual_seed(0)
w, b, unused = (torch.randn(4, 1, requires_grad=True) for _ in range(3))
opt = torch.optim.SGD([w, b, unused], lr=0.01)
X = torch.randn(20, 4)
for i in range(6):
    opt.zero_grad()
    ((X @ w + X @ b) ** 2).mean().backward()
    opt.step()  # <- parameter-without-gradient
