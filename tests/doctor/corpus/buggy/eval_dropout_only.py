"""A fine-tuning function that evaluates first; the model has dropout."""

import torch
from torch import nn


def evaluate(model, x):
    model.eval()  # <- eval-mode-training
    with torch.no_grad():
        return model(x).argmax(1)


def finetune(model, steps=5):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    evaluate(model, torch.randn(4, 6))
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,))).backward()
        optimizer.step()


torch.manual_seed(0)
finetune(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)))
