"""Model.zero_grad() does not reach the uncertainty weights, which live in the loss module but are in the
optimizer too.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiTaskLoss(nn.Module):
    """Kendall et al. 2018, homoscedastic uncertainty."""

    def __init__(self, n):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(n))

    def forward(self, losses):
        losses = torch.stack(losses)
        return (torch.exp(-self.log_vars) * losses + self.log_vars).sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        self.reg, self.cls = nn.Linear(32, 1), nn.Linear(32, 3)

    def forward(self, x):
        h = self.trunk(x)
        return self.reg(h).squeeze(-1), self.cls(h)


torch.manual_seed(0)
model, mtl = Net(), MultiTaskLoss(2)
optimizer = torch.optim.Adam(
    [{"params": model.parameters()}, {"params": mtl.parameters(), "lr": 1e-2}], lr=1e-3
)
for step in range(15):
    x = torch.randn(16, 8)
    depth, seg = x.sum(1), x[:, :3].argmax(1)
    model.zero_grad()
    pd, ps = model(x)
    loss = mtl([F.l1_loss(pd, depth), F.cross_entropy(ps, seg)])
    loss.backward()
    optimizer.step()  # <- gradient-reused
print("log_vars", mtl.log_vars.tolist())
