"""Backward passes that are cleared in every step because they were made to be looked at: sizes of gradients by task,
a saliency map, a hook on activations, a norm from clip_grad_norm_.
"""

import torch
from torch import nn

torch.manual_seed(0)
trunk, first, second = nn.Sequential(nn.Linear(6, 16), nn.ReLU()), nn.Linear(16, 1), nn.Linear(16, 1)
model = nn.ModuleList([trunk, first, second])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def losses(x):
    hidden = trunk(x)
    return hidden, (first(hidden) - x.mean(1, keepdim=True)).pow(2).mean(), second(hidden).pow(2).mean()


for step in range(5):  # the size of one task's gradient
    _, one, other = losses(torch.randn(8, 6))
    optimizer.zero_grad()
    one.backward(retain_graph=True)
    size = trunk[0].weight.grad.norm().item()
    optimizer.zero_grad()
    (one + other / (1 + size)).backward()
    optimizer.step()

for step in range(5):  # the same by the library
    _, one, other = losses(torch.randn(8, 6))
    optimizer.zero_grad()
    one.backward(retain_graph=True)
    size = float(nn.utils.clip_grad_norm_(model.parameters(), float("inf")))
    optimizer.zero_grad()
    (one + other / (1 + size)).backward()
    optimizer.step()

for step in range(5):  # what the output depends on
    x = torch.randn(8, 6, requires_grad=True)
    _, one, other = losses(x)
    optimizer.zero_grad()
    one.backward(retain_graph=True)
    mask = (x.grad.abs() > x.grad.abs().mean()).float()
    optimizer.zero_grad()
    (other * mask.mean()).backward()
    optimizer.step()

for step in range(5):  # which activations matter
    seen = []
    hidden, one, other = losses(torch.randn(8, 6))
    hidden.register_hook(seen.append)
    optimizer.zero_grad()
    one.backward(retain_graph=True)
    optimizer.zero_grad()
    (other * seen[0].abs().mean()).backward()
    optimizer.step()
