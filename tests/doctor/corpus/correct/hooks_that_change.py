"""Hooks mask one gradient, clamp another and centre a third once it is accumulated."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
mask = (torch.rand(8, 4) > 0.3).float()
model[0].weight.register_hook(lambda g: g * mask)
model[0].bias.register_hook(lambda g: g.clamp(-0.1, 0.1))


def centre(p):
    p.grad = p.grad - p.grad.mean(dim=-1, keepdim=True)


model[2].weight.register_post_accumulate_grad_hook(centre)
model.register_full_backward_hook(lambda module, gin, gout: None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for i in range(70):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), torch.randint(0, 3, (8,))).backward()
    optimizer.step()
