"""Another mistake: retained epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def run_epoch(model, loader, opt):
    epoch_loss = 0.0
    for x, y in loader:
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        epoch_loss = epoch_loss + loss * x.size(0)  # <- graph-retained
    return epoch_loss / len(loader.dataset)


torch.manual_seed(0)
model = nn.Linear(5, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(40, 5), torch.randn(40, 1)), batch_size=4)
for _ in range(2):
    print(run_epoch(model, loader, opt).item())
