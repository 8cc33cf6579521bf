"""Decay / no-decay groups are selected by module type and the LayerNorm parameters fall through both."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class LM(nn.Module):
    def __init__(self, vocab=24, d=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.blocks = nn.Sequential(Block(d), Block(d))
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, idx):
        return self.head(self.blocks(self.emb(idx)))


def configure_optimizers(model, wd=0.1, lr=1e-3):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        if "ln" in name:
            continue  # meant: no_decay.append(p)
        (no_decay if name.endswith("bias") else decay).append(p)
    groups = [{"params": decay, "weight_decay": wd}, {"params": no_decay, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))  # <- parameter-not-in-optimizer


torch.manual_seed(0)
model = LM()
opt = configure_optimizers(model)
for it in range(15):
    idx = torch.randint(0, 24, (8, 7))
    logits = model(idx)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), idx.flatten())
    for p in model.parameters():
        p.grad = None
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
print(loss.item())
