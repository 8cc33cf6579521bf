"""None and zeros differ: a parameter without gradient is left alone, one with zeros is decayed and coasts."""

import torch
from torch import nn, optim

torch.manual_seed(3)


def run(make_optimizer, set_to_none):
    torch.manual_seed(4)
    model = nn.ModuleDict({"used": nn.Linear(2, 1), "sometimes": nn.Linear(2, 1)})
    optimizer = make_optimizer(model.parameters())
    for step in range(4):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = model["used"](torch.ones(1, 2)).sum()
        if step == 0:
            loss = loss + model["sometimes"](torch.ones(1, 2)).sum()
        loss.backward()
        optimizer.step()
        print(f"  {model['sometimes'].weight.data} {model['sometimes'].weight.grad}")


for name, make_optimizer in {
    "SGD": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda p: optim.Adam(p, lr=0.1),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.5),
}.items():
    for set_to_none in (True, False):
        print(name, set_to_none)
        run(make_optimizer, set_to_none)

weight = nn.Parameter(torch.tensor([1.0, 2.0]))
optimizer = optim.SGD([weight], lr=0.1)
(weight**2).sum().backward()
gradient = weight.grad
optimizer.zero_grad(set_to_none=False)
print(weight.grad is gradient, gradient)
(weight**2).sum().backward()
optimizer.zero_grad()
print(weight.grad, gradient)

# A gradient with a history of its own is cut off from it.
(weight**3).sum().backward(create_graph=True)
print(weight.grad.requires_grad, weight.grad.grad_fn is not None)
optimizer.zero_grad(set_to_none=False)
print(weight.grad, weight.grad.requires_grad, weight.grad.grad_fn)
