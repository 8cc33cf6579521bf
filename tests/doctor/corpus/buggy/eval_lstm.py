"""Another mistake: eval lstm."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 6, num_layers=2, dropout=0.5)
        self.out = nn.Linear(6, 3)

    def forward(self, x):
        return self.out(self.lstm(x)[0])


def validate(model):
    model.eval()  # <- eval-mode-training
    with torch.no_grad():
        return model(torch.randn(3, 2, 4)).mean().item()


torch.manual_seed(0)
model = Tagger()
opt = torch.optim.Adam(model.parameters())
for epoch in range(3):
    for _ in range(4):
        opt.zero_grad()
        model(torch.randn(3, 2, 4)).pow(2).mean().backward()
        opt.step()
    validate(model)
