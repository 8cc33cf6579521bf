"""The trainer steps the optimizer, and an on_batch_end callback steps it a second time on the same backward."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Callback:
    def on_batch_end(self, trainer):
        pass


class LRLogger(Callback):
    def __init__(self):
        self.lrs = []

    def on_batch_end(self, trainer):
        self.lrs.append(trainer.optimizer.param_groups[0]["lr"])


class OptimizerCallback(Callback):
    """From the time when the trainer did not step by itself."""

    def on_batch_end(self, trainer):
        trainer.optimizer.step()  # <- gradient-reused


class Trainer:
    def __init__(self, model, callbacks):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.loss_fn = nn.CrossEntropyLoss()
        self.callbacks = callbacks

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                self.optimizer.zero_grad()
                loss = self.loss_fn(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                for cb in self.callbacks:
                    cb.on_batch_end(self)
            print(f"epoch {epoch} loss {loss.item():.4f}")


torch.manual_seed(1)
X = torch.randn(64, 10)
Y = (X[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 2))
Trainer(net, [LRLogger(), OptimizerCallback()]).fit(
    DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True), 2
)
