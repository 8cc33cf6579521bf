"""Two optimizers hold the same encoder: one gradient moves it twice."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder, judge = nn.Linear(4, 3), nn.Linear(3, 4), nn.Linear(3, 1)
reconstruct = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
predict = torch.optim.Adam([*encoder.parameters(), *judge.parameters()])
for _ in range(5):
    x = torch.randn(8, 4)
    code = encoder(x)
    loss = nn.functional.mse_loss(decoder(code), x) + judge(code).pow(2).mean()
    reconstruct.zero_grad()
    predict.zero_grad()
    loss.backward()
    reconstruct.step()
    predict.step()  # <- gradient-reused
