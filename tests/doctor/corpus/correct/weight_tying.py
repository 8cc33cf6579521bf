"""The output layer shares its weight with the embedding."""

import torch
from torch import nn


class Language(nn.Module):
    def __init__(self, words=12, width=6):
        super().__init__()
        self.embed, self.out = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, ids):
        return self.out(self.embed(ids))


torch.manual_seed(0)
model = Language()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(5):
    ids = torch.randint(0, 12, (4, 7))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(ids[:, :-1]).reshape(-1, 12), ids[:, 1:].reshape(-1)).backward()
    optimizer.step()
