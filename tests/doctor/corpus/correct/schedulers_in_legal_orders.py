"""Schedulers of many kinds: per batch, per epoch, on a plateau, chained, at the top of later epochs, with a
closure.
"""

import torch
from torch import nn
from torch.optim import lr_scheduler as lrs

torch.manual_seed(0)


def make():
    model = nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(model, optimizer):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.item()


model, optimizer = make()
cycle = lrs.OneCycleLR(optimizer, max_lr=0.1, total_steps=20)
for _ in range(20):
    train(model, optimizer)
    cycle.step()

model, optimizer = make()
plateau = lrs.ReduceLROnPlateau(optimizer, patience=1)
steps = lrs.MultiStepLR(optimizer, [3, 6])
for epoch in range(8):
    loss = sum(train(model, optimizer) for _ in range(3))
    plateau.step(loss)
    steps.step()

model, optimizer = make()
restarts = lrs.CosineAnnealingWarmRestarts(optimizer, 4)
for epoch in range(5):
    for i in range(3):
        train(model, optimizer)
        restarts.step(epoch + i / 3)

model, optimizer = make()
chained = lrs.ChainedScheduler([lrs.ConstantLR(optimizer, 0.5, 3), lrs.ExponentialLR(optimizer, 0.9)])
for epoch in range(6):
    if epoch > 0:
        chained.step()
    train(model, optimizer)

model, optimizer = make()
sequence = lrs.SequentialLR(
    optimizer, [lrs.LinearLR(optimizer, 0.1, total_iters=3), lrs.PolynomialLR(optimizer, 6)], [3]
)
cyclic = lrs.CyclicLR(optimizer, 0.01, 0.1, step_size_up=2)
for i in range(12):
    train(model, optimizer)
    if i % 2 == 1:
        sequence.step()
    cyclic.step()
