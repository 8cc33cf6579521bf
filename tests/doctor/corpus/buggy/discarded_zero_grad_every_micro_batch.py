"""Gradient accumulation with zero_grad at the top of every micro-batch: only the last of the 4 micro-batches
reaches the step.
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    accum_iter = 4
    ds = TensorDataset(torch.randn(96, 1, 8, 8), torch.randint(0, 3, (96,)))
    data_loader = DataLoader(ds, batch_size=4, shuffle=True)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    for epoch in range(2):
        for batch_idx, (inputs, labels) in enumerate(data_loader):
            optimizer.zero_grad()  # <- gradient-discarded
            preds = model(inputs)
            loss = criterion(preds, labels)
            loss = loss / accum_iter
            loss.backward()
            if (batch_idx + 1) % accum_iter == 0:
                optimizer.step()
        print("epoch", epoch, "loss", loss.item() * accum_iter)


if __name__ == "__main__":
    main()
