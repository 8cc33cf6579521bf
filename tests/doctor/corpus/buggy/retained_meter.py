"""A trainer's meter keeps tensors."""

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.metrics = {"loss": []}

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.metrics["loss"].append(loss)  # <- graph-retained


torch.manual_seed(0)
trainer = Trainer()
for _ in range(12):
    trainer.step(torch.randn(8, 4))
