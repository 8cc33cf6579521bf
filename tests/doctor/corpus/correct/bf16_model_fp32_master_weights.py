"""Bf16 working copy gets the gradients, an fp32 master copy is in the optimizer and is copied back (Megatron
style).
"""

import torch
from torch import nn


class MasterWeightTrainer:
    def __init__(self, model, lr=1e-4):
        self.model = model.to(torch.bfloat16)
        self.master = [p.detach().float().clone().requires_grad_(True) for p in model.parameters()]
        self.opt = torch.optim.AdamW(self.master, lr=lr)

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x.bfloat16()).float(), y)
        loss.backward()
        for m, p in zip(self.master, self.model.parameters()):
            m.grad = p.grad.float()
        nn.utils.clip_grad_norm_(self.master, 1.0)
        self.opt.step()
        with torch.no_grad():
            for m, p in zip(self.master, self.model.parameters()):
                p.copy_(m)
                p.grad = None
        return loss.item()


torch.manual_seed(0)
t = MasterWeightTrainer(nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)))
for _ in range(16):
    x = torch.randn(16, 8)
    print(t.step(x, x.roll(1, 1)))
