"""The vocabulary grows: the embedding is exchanged while the optimizer keeps the old one."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embed, self.out = nn.Embedding(words, 4), nn.Linear(4, 2)

    def resize(self, words):
        old = self.embed
        self.embed = nn.Embedding(words, 4)
        self.embed.weight.data[: old.num_embeddings] = old.weight.data

    def forward(self, ids):
        return self.out(self.embed(ids).mean(1))


torch.manual_seed(0)
model = Model(10)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.resize(12)
for _ in range(5):
    loss = nn.functional.cross_entropy(model(torch.randint(0, 12, (8, 3))), torch.randint(0, 2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- optimizer-stale-parameter
