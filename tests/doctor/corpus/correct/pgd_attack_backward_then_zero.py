"""The PGD attack calls backward on the model to get x.grad; the parameter gradients of the attack are cleared
before the training backward.
"""

import torch
import torch.nn.functional as F
from torch import nn


def pgd(model, x, y, eps=0.1, alpha=0.04, steps=3):
    model.eval()
    adv = x.clone() + torch.empty_like(x).uniform_(-eps, eps)
    for _ in range(steps):
        adv = adv.detach().requires_grad_(True)
        F.cross_entropy(model(adv), y).backward()
        adv = adv + alpha * adv.grad.sign()
        adv = x + (adv - x).clamp(-eps, eps)
    model.train()
    return adv.detach()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for it in range(10):
    x = torch.randn(32, 10)
    y = x[:, :3].argmax(1)
    adv = pgd(model, x, y)
    opt.zero_grad()
    loss = F.cross_entropy(model(adv), y)
    loss.backward()
    opt.step()
print(loss.item())
