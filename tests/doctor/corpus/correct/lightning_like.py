"""A small framework: hooks, a closure per optimizer, automatic optimization."""

import torch
from torch import nn


class Module(nn.Module):
    def configure_optimizers(self):
        raise NotImplementedError

    def training_step(self, batch, index):
        raise NotImplementedError


class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs

    def fit(self, module, batches):
        optimizer, scheduler = module.configure_optimizers()
        for _ in range(self.epochs):
            module.train()
            for index, batch in enumerate(batches):

                def closure(batch=batch, index=index):
                    loss = module.training_step(batch, index)
                    optimizer.zero_grad()
                    loss.backward()
                    return loss

                optimizer.step(closure)
            scheduler.step()


class Regression(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))

    def training_step(self, batch, index):
        x, y = batch
        return nn.functional.mse_loss(self.net(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)


torch.manual_seed(0)
Trainer(3).fit(Regression(), [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(4)])
