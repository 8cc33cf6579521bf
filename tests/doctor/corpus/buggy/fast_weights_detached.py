"""Meta-learning whose inner step starts from detached weights: nothing leads back to the model."""

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
shift = nn.Parameter(torch.zeros(1))
optimizer = torch.optim.Adam([*model.parameters(), shift], lr=1e-3)
for _ in range(8):
    x, y = torch.randn(10, 2), torch.randn(10, 1)
    fast = {name: p.detach().requires_grad_() for name, p in model.named_parameters()}
    inner = nn.functional.mse_loss(functional_call(model, fast, (x[:5],)), y[:5])
    grads = torch.autograd.grad(inner, list(fast.values()))
    fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)}
    outer = nn.functional.mse_loss(functional_call(model, fast, (x[5:],)) + shift, y[5:])
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()  # <- parameter-without-gradient
