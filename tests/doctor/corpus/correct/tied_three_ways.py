"""One weight in three places, tied before the optimizer is made; groups without duplicates."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 6)
        self.out = nn.Linear(6, 12, bias=False)
        self.out.weight = self.words.weight
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, t):
        return self.out(self.words(t) * self.scale) + torch.nn.functional.linear(
            self.words(t), self.words.weight
        )


torch.manual_seed(0)
model = Model()
decay = [p for p in model.parameters() if p.dim() > 1]
plain = [p for p in model.parameters() if p.dim() == 1]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-2
)
for _ in range(10):
    t = torch.randint(0, 12, (4, 6))
    loss = nn.functional.cross_entropy(model(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
