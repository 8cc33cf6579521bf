"""Another mistake: stale to copy."""
# companions: step-without-gradient

import copy

import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.model = copy.deepcopy(model)  # <- optimizer-stale-parameter

    def run(self):
        for _ in range(4):
            self.optimizer.zero_grad()
            self.model(torch.randn(6, 4)).pow(2).mean().backward()
            self.optimizer.step()


torch.manual_seed(0)
Trainer(nn.Linear(4, 1)).run()
