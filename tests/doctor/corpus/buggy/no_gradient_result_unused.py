"""An auxiliary head runs, but its loss is left out of the sum."""

import torch
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.main, self.aux = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.main(h), self.aux(h)


torch.manual_seed(0)
model = TwoHeads()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    x, y, z = torch.randn(8, 4), torch.randint(0, 3, (8,)), torch.randn(8, 1)
    logits, value = model(x)
    main_loss = nn.functional.cross_entropy(logits, y)
    aux_loss = nn.functional.mse_loss(value, z)
    optimizer.zero_grad()
    main_loss.backward()
    optimizer.step()  # <- parameter-without-gradient
