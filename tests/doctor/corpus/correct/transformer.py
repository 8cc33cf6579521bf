"""Correct as well: transformer."""

import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Embedding(20, 8)
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
encoder, out = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 20)
model = nn.ModuleDict({"embed": embed, "encoder": encoder, "out": out})
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / 3, 1.0))
for _ in range(6):
    ids = torch.randint(0, 20, (4, 6))
    logits = out(encoder(embed(ids[:, :-1])))
    loss = nn.functional.cross_entropy(logits.reshape(-1, 20), ids[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
