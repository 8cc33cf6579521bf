"""Steps that never clear .grad: every backward adds to what is there, in place."""

import torch
from torch import nn, optim

torch.manual_seed(1)
model = nn.Linear(10, 2)
optimizer = optim.SGD(model.parameters(), lr=0.01)
criterion = nn.MSELoss()
inputs = torch.randn(1, 10)
target = torch.tensor([[0.5, -0.5]])

for step in range(3):
    loss = criterion(model(inputs), target)
    loss.backward()
    optimizer.step()
    print(f"step {step + 1}, loss {loss}")
    for name, parameter in model.named_parameters():
        print(f"  {name} gradient: {parameter.grad}")

weight = torch.tensor(2.0, requires_grad=True)
(3 * weight).backward()
bucket = weight.grad
print(weight.grad.item())
(5 * weight).backward()
print(weight.grad.item(), weight.grad is bucket, bucket)

# The gradients of one pass over two losses and of two passes agree.
model.zero_grad()
(criterion(model(inputs), target) + model(inputs).sum()).backward()
once = [parameter.grad.clone() for parameter in model.parameters()]
model.zero_grad()
criterion(model(inputs), target).backward()
model(inputs).sum().backward()
print([torch.allclose(one, parameter.grad) for one, parameter in zip(once, model.parameters())])
