"""The trainer's optimizer_step() clears the gradients first, so the step that follows runs on nothing."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 1))

    def training_step(self, batch):
        x, y = batch
        return nn.functional.huber_loss(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


class MiniLightning:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs

    def backward(self, loss):
        loss.backward()

    def optimizer_step(self, opt):
        opt.zero_grad()  # <- gradient-discarded
        opt.step()

    def fit(self, module, loader):
        opt = module.configure_optimizers()
        for epoch in range(self.max_epochs):
            total = 0.0
            for batch in loader:
                loss = module.training_step(batch)
                self.backward(loss)
                self.optimizer_step(opt)
                total += loss.item()
            print("epoch", epoch, "loss", total / len(loader))


torch.manual_seed(0)
X = torch.randn(64, 6)
MiniLightning(2).fit(LitModule(), DataLoader(TensorDataset(X, X[:, :1] * 2), batch_size=8))
