"""Another mistake: scheduler micro inside."""

import torch
from torch import nn


def train(model, opt, sched, batches, k):
    opt.zero_grad()
    for i, x in enumerate(batches):
        (model(x).pow(2).mean() / k).backward()
        sched.step()  # <- scheduler-misplaced
        if (i + 1) % k == 0:
            opt.step()
            opt.zero_grad()


torch.manual_seed(0)
model = nn.Linear(5, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: 1 / (n + 1))
train(model, opt, sched, [torch.randn(6, 5) for _ in range(12)], 3)
