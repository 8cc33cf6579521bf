"""Encoder and decoder are two models, and only one is optimized."""

# companions: outside-accumulation
import torch
from torch import nn


def main():
    torch.manual_seed(0)
    encoder, decoder = nn.Linear(8, 2), nn.Linear(2, 8)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-3)  # <- parameter-not-in-optimizer
    for _ in range(6):
        x = torch.randn(16, 8)
        loss = nn.functional.mse_loss(decoder(encoder(x)), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
