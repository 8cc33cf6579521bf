"""Truncated backpropagation through time: the hidden state is detached between chunks."""

import torch
from torch import nn


def repackage(state):
    return tuple(part.detach() for part in state)


torch.manual_seed(0)
lstm, out = nn.LSTM(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*lstm.parameters(), *out.parameters()])
state = (torch.zeros(1, 2, 5), torch.zeros(1, 2, 5))
for _ in range(8):
    state = repackage(state)
    y, state = lstm(torch.randn(4, 2, 3), state)
    optimizer.zero_grad()
    out(y).pow(2).mean().backward()
    nn.utils.clip_grad_norm_(lstm.parameters(), 0.25)
    optimizer.step()
