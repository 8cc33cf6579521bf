"""Gradients are computed with torch.autograd.grad but never put into .grad, so optimizer.step() finds
nothing.
"""

import torch
from torch import nn

torch.manual_seed(0)


class EnergyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, pos):
        pos = pos.requires_grad_(True)
        energy = self.f(pos).sum()
        (force,) = torch.autograd.grad(-energy, pos, create_graph=True)
        return energy, force


model = EnergyNet()
params = list(model.parameters())
opt = torch.optim.Adam(params, lr=1e-3)

for step in range(10):
    pos = torch.randn(16, 3)
    target_force = -2 * pos.detach()
    energy, force = model(pos)
    loss = (force - target_force).pow(2).mean() + 1e-3 * energy.pow(2)
    opt.zero_grad()
    grads = torch.autograd.grad(loss, params, allow_unused=True)
    gnorm = torch.stack([g.norm() for g in grads if g is not None]).norm()
    opt.step()  # <- step-without-gradient
    print(f"step {step} loss {loss.item():.4f} |g| {gnorm.item():.3f}")
