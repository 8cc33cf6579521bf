"""Tied embedding/head, activation checkpointing, and EMA weights swapped in for validation by .data and
swapped back.
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class LM(nn.Module):
    def __init__(self, v=24, d=16):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.GELU()) for _ in range(2)
        )
        self.head = nn.Linear(d, v, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, x):
        h = self.emb(x)
        for b in self.blocks:
            h = h + (checkpoint(b, h, use_reentrant=False) if self.training else b(h))
        return self.head(h)


torch.manual_seed(0)
model = LM()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
ema = {n: p.detach().clone() for n, p in model.named_parameters()}


def swap():
    for n, p in model.named_parameters():
        p.data, ema[n] = ema[n], p.data


for it in range(15):
    model.train()
    x = torch.randint(0, 24, (4, 6))
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), ((x + 1) % 24).flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for n, p in model.named_parameters():
            ema[n].lerp_(p, 0.1)
    if it % 5 == 4:
        swap()
        model.eval()
        with torch.no_grad():
            print(it, model(x).argmax(-1).float().mean().item())
        swap()
