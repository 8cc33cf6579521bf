"""What step() does: first one weight with known gradients, then Adam written out beside the real one."""

import torch
from torch import nn, optim


def two_batches(clear):
    weight = nn.Parameter(torch.tensor(2.0))
    optimizer = optim.SGD([weight], lr=0.1)
    for slope in (3.0, 5.0):
        if clear:
            optimizer.zero_grad()
        (slope * weight).backward()
        optimizer.step()
        print(f"  gradient {weight.grad.item():.1f}, weight {weight.item():.4f}")


print("without zero_grad")
two_batches(clear=False)
print("with zero_grad")
two_batches(clear=True)

torch.manual_seed(5)
parameter = nn.Parameter(torch.randn(5))
by_hand = parameter.detach().clone()
optimizer = optim.Adam([parameter], lr=0.05, betas=(0.9, 0.99), eps=1e-8)
mean, square = torch.zeros(5), torch.zeros(5)
for step in range(1, 6):
    optimizer.zero_grad()
    loss = (parameter.cos() * torch.arange(5)).sum()
    loss.backward()
    gradient = parameter.grad
    optimizer.step()
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.99 * square + 0.01 * gradient**2
    by_hand -= 0.05 * (mean / (1 - 0.9**step)) / ((square / (1 - 0.99**step)).sqrt() + 1e-8)
    print(step, loss, parameter, torch.allclose(by_hand, parameter.detach()))

state = optimizer.state[parameter]
print(list(state), state["step"], state["exp_avg"])
print(optimizer)
