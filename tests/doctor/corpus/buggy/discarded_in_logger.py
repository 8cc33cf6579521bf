"""Another mistake: discarded in logger."""

import torch
from torch import nn


class Fit:
    def __init__(self):
        self.net = nn.Linear(5, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def compute(self, x):
        loss = self.net(x).pow(2).mean()
        loss.backward()
        return loss

    def reset(self):
        self.net.zero_grad()  # <- gradient-discarded

    def run(self):
        for _ in range(5):
            loss = self.compute(torch.randn(6, 5))
            self.reset()
            self.opt.step()
            print(loss.item())


torch.manual_seed(0)
Fit().run()
