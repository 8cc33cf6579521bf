"""Each batch belongs to one dataset and uses only its head; the other heads have no gradient in that step,
but get one in turn.
"""

import torch
import torch.nn as nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(7, 20), nn.ReLU())
heads = nn.ModuleDict({"age": nn.Linear(20, 1), "sex": nn.Linear(20, 2), "city": nn.Linear(20, 5)})
opt = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=3e-3)
names = ["age", "sex", "age", "sex", "age", "sex", "age", "city"]
for step in range(32):
    name = names[step % len(names)]
    x = torch.randn(16, 7)
    out = heads[name](trunk(x))
    if name == "age":
        loss = nn.functional.mse_loss(out.squeeze(1), x.sum(1))
    else:
        loss = nn.functional.cross_entropy(out, x[:, : out.size(1)].argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
