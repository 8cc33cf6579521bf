"""The trainer clears the gradients of the model it was given first, not of the one it trains."""

import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.ema = nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def training_step(self, batch):
        x, y = batch
        return nn.functional.cross_entropy(self.model(x), y)

    def fit(self, steps):
        for _ in range(steps):
            batch = torch.randn(8, 4), torch.randint(0, 2, (8,))
            self.ema.zero_grad()
            loss = self.training_step(batch)
            loss.backward()
            self.optimizer.step()  # <- gradient-reused


torch.manual_seed(0)
Trainer(nn.Linear(4, 2)).fit(4)
