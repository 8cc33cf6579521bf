"""FGM: the embedding is perturbed along its gradient, a second backward adds to the first, the weight is
restored.
"""

import torch
from torch import nn

torch.manual_seed(0)
embed, out = nn.Embedding(10, 4), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*embed.parameters(), *out.parameters()], lr=1e-3)


def loss_of(ids, y):
    return nn.functional.cross_entropy(out(embed(ids).mean(1)), y)


for _ in range(6):
    ids, y = torch.randint(0, 10, (8, 3)), torch.randint(0, 2, (8,))
    optimizer.zero_grad()
    loss_of(ids, y).backward()
    backup = embed.weight.data.clone()
    embed.weight.data.add_(0.5 * embed.weight.grad / embed.weight.grad.norm())
    loss_of(ids, y).backward()
    embed.weight.data = backup
    optimizer.step()
