"""Truncated backpropagation through time with a hand-written SGD."""

import torch
from torch import nn

torch.manual_seed(0)
rnn, out = nn.RNN(3, 5), nn.Linear(5, 1)
params = [*rnn.parameters(), *out.parameters()]
h = torch.zeros(1, 2, 5)
for _ in range(8):
    h = h.detach()
    y, h = rnn(torch.randn(4, 2, 3), h)
    loss = out(y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in params:
            p -= 0.1 * p.grad
            p.grad.zero_()
