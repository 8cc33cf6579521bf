"""Losses are collected for a plot, with their graphs."""

import torch
from torch import nn


def train(model, optimizer, steps):
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(model(torch.randn(8, 4)), torch.zeros(8, 1))
        loss.backward()
        optimizer.step()
        history.append(loss)  # <- graph-retained
    return history


torch.manual_seed(0)
net = nn.Linear(4, 1)
train(net, torch.optim.SGD(net.parameters(), lr=0.01), 12)
