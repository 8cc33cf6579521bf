"""Who clears what: the optimizer its own parameters, the module all of them."""

import torch
from torch import nn, optim

torch.manual_seed(2)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = optim.SGD(model[0].parameters(), lr=0.1)


def show(when):
    print(when, {name: p.grad is not None for name, p in model.named_parameters()})


def backward():
    loss = model(torch.ones(2, 3)).sum()
    loss.backward()
    return loss


print(optimizer.zero_grad(), model.zero_grad())
show("at first")
print(backward())
show("after backward")
optimizer.zero_grad()
show("after optimizer.zero_grad")
backward()
print(model[2].bias.grad, model[0].bias.grad)
model.zero_grad()
show("after model.zero_grad")

backward()
model.zero_grad(set_to_none=False)
print(model[0].weight.grad, model[2].bias.grad)
for parameter in model.parameters():
    parameter.grad = None
show("by hand")

for step in range(3):
    optimizer.zero_grad()
    loss = backward()
    optimizer.step()
    print(f"step {step + 1}, loss {loss.item():.6f}, gradient {model[0].bias.grad}")
