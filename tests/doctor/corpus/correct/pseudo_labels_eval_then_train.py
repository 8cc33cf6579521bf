"""The model goes to eval every step to make pseudo-labels without gradients and back to train before the
loss.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.3), nn.Linear(20, 3))
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(14):
    xl = torch.randn(12, 6)
    yl = xl[:, :3].argmax(1)
    xu = torch.randn(24, 6)
    model.eval()
    with torch.no_grad():
        probs = F.softmax(model(xu), 1)
        conf, pseudo = probs.max(1)
    model.train()
    mask = (conf > 0.4).float()
    loss = F.cross_entropy(model(xl), yl)
    loss = (
        loss
        + 0.5
        * (F.cross_entropy(model(xu + 0.05 * torch.randn_like(xu)), pseudo, reduction="none") * mask).mean()
    )
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
