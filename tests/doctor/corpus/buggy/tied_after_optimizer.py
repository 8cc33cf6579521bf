"""Weights are tied when the optimizer already holds the old ones."""
# companions: parameter-without-gradient

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 6)
        self.mix = nn.Linear(6, 6)
        self.out = nn.Linear(6, 12, bias=False)

    def forward(self, tokens):
        return self.out(torch.tanh(self.mix(self.embed(tokens))))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model.out.weight = model.embed.weight
for _ in range(10):
    tokens = torch.randint(0, 12, (4, 7))
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- optimizer-stale-parameter
