"""Clipping, between backward and step."""

import warnings

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, get_total_norm

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 3), 10 * torch.randn(8, 1)

model.train()
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    before = clip_grad_norm_(model.parameters(), max_norm=1.0)
    after = get_total_norm([p.grad for p in model.parameters()])
    optimizer.step()
    print(f"step {step}, loss {loss:.5f}, norm {before} -> {after}")

print(clip_grad_norm_(model.parameters(), 0.1, norm_type=float("inf")))
print([p.grad.abs().max() for p in model.parameters()])
print(clip_grad_value_(model.parameters(), 0.05), model[0].weight.grad)

optimizer.zero_grad(set_to_none=True)
print(clip_grad_norm_(model.parameters(), 1.0))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    parameters = model.parameters()
    list(parameters)
    clip_grad_norm_(parameters, 1.0)
    print([warning.category.__name__ for warning in caught])

weight = nn.Parameter(torch.tensor([1.0, 2.0]))
weight.grad = torch.tensor([float("inf"), 1.0])
try:
    clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)
except RuntimeError:
    print("refused", weight.grad)
print(clip_grad_norm_([weight], 1.0), weight.grad)
