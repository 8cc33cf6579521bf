"""After training, the model is put in eval and only a temperature is fitted on its logits; the model is no
longer meant to learn.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
X = torch.randn(150, 6)
Y = (X[:, 0] + 0.3 * torch.randn(150) > 0).long()
model = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for i in range(15):
    opt.zero_grad()
    F.cross_entropy(model(X[:100]), Y[:100]).backward()
    opt.step()
opt.zero_grad()

model.eval()
with torch.no_grad():
    val_logits = model(X[100:])
temperature = nn.Parameter(torch.ones(1) * 1.5)
cal = torch.optim.LBFGS([temperature], lr=0.1, max_iter=20)


def closure():
    cal.zero_grad()
    loss = F.cross_entropy(val_logits / temperature, Y[100:])
    loss.backward()
    return loss


for _ in range(3):
    cal.step(closure)
print(temperature.item())
