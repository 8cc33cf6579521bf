"""Another mistake: reused condition."""

import torch
from torch import nn


class Accelerator:
    def prepare(self, *things):
        return things

    def backward(self, loss):
        loss.backward()


def main():
    torch.manual_seed(0)
    accelerator = Accelerator()
    model = nn.Linear(5, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(9):
        loss = nn.functional.cross_entropy(model(torch.randn(6, 5)), torch.randint(0, 2, (6,)))
        accelerator.backward(loss)
        optimizer.step()  # <- gradient-reused
        if step % 3 == 0:
            print(step, loss.item())
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
