"""A choice by argmax has no gradient: the encoder behind it never learns."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, codes, decoder = nn.Linear(4, 5), nn.Embedding(5, 6), nn.Linear(6, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *codes.parameters(), *decoder.parameters()])
for _ in range(12):
    x = torch.randn(16, 4)
    chosen = encoder(x).argmax(1)
    loss = nn.functional.mse_loss(decoder(codes(chosen)), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- parameter-without-gradient
