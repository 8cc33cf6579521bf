"""Static loss scaling by hand: loss * S, gradients divided by S before clip and step, non-finite ones
skipped.
"""

import torch
from torch import nn

S = 2.0**10
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for it in range(12):
    x = torch.randn(16, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = nn.functional.mse_loss(out.float(), x[:, :1])
    (loss * S).backward()
    with torch.no_grad():
        torch._foreach_div_([p.grad for p in model.parameters()], S)
    if all(torch.isfinite(p.grad).all() for p in model.parameters()):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
    for p in model.parameters():
        p.grad = None
print(loss.item())
