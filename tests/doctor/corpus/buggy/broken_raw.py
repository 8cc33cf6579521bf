"""Another mistake: broken raw."""

import torch

torch.manual_seed(0)
w = torch.randn(4, 8, requires_grad=True)
v = torch.randn(8, 1, requires_grad=True)
opt = torch.optim.Adam([w, v], lr=0.01)
X, Y = torch.randn(20, 4), torch.randn(20, 1)
for i in range(6):
    h = torch.relu(X @ w)
    h = h.detach()  # <- graph-broken
    loss = ((h @ v - Y) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
