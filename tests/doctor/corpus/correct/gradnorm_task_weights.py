"""GradNorm: task weights have their own optimizer whose gradients come from autograd.grad and are assigned;
the weights' .grad of the main loss is replaced.
"""

import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(6, 24), nn.ReLU())
heads = nn.ModuleList([nn.Linear(24, 1), nn.Linear(24, 1)])
w = nn.Parameter(torch.ones(2))
opt = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=1e-3)
opt_w = torch.optim.Adam([w], lr=1e-2)
shared, init = trunk[0].weight, None
for it in range(15):
    x = torch.randn(32, 6)
    h = trunk(x)
    losses = torch.stack(
        [(heads[0](h) - x.sum(1, keepdim=True)).pow(2).mean(), (heads[1](h) - 5 * x[:, :1]).pow(2).mean()]
    )
    init = losses.detach() if init is None else init
    opt.zero_grad()
    (w * losses).sum().backward(retain_graph=True)
    g = torch.stack(
        [
            torch.autograd.grad(w[i] * losses[i], shared, create_graph=True, retain_graph=True)[0].norm()
            for i in range(2)
        ]
    )
    ratio = losses.detach() / init
    target = (g.mean() * (ratio / ratio.mean()) ** 1.5).detach()
    w.grad = torch.autograd.grad((g - target).abs().sum(), w)[0]
    opt.step()
    opt_w.step()
    with torch.no_grad():
        w.mul_(2 / w.sum())
print(w.tolist())
