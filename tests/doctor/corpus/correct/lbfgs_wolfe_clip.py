"""LBFGS with a line search; the closure clips, and the loss is computed once more for the log."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
x, y = torch.randn(32, 3), torch.randn(32, 1)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 10.0)
    return loss


for _ in range(6):
    optimizer.step(closure)
    with torch.no_grad():
        print(nn.functional.mse_loss(model(x), y).item())
