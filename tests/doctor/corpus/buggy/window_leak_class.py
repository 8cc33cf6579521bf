"""Another mistake: window leak class."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, every):
        self.model, self.every = model, every
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self, loader):
        for i, (x, y) in enumerate(loader):
            loss = self.criterion(self.model(x), y) / self.every
            loss.backward()
            if (i + 1) % self.every == 0:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()  # <- window-leak
                self.optimizer.zero_grad()


torch.manual_seed(0)
trainer = Trainer(nn.Linear(5, 3), 2)
loader = DataLoader(TensorDataset(torch.randn(35, 5), torch.randint(0, 3, (35,))), batch_size=5, shuffle=True)
for _ in range(3):
    trainer.train_epoch(loader)
