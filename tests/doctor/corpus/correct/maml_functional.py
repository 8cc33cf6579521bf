"""Second-order meta-learning with functional_call; the inner loop never touches .grad."""

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
outer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(6):
    outer.zero_grad()
    total = 0.0
    for task in range(3):
        x, y = torch.randn(10, 2), torch.randn(10, 1)
        fast = dict(model.named_parameters())
        for _ in range(2):
            inner = nn.functional.mse_loss(functional_call(model, fast, (x[:5],)), y[:5])
            grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)}
        loss = nn.functional.mse_loss(functional_call(model, fast, (x[5:],)), y[5:]) / 3
        loss.backward()
        total += loss.item()
    outer.step()
