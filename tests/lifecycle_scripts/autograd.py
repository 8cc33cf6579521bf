"""What a graph is made of: leaves, results, and where gradients end up."""

import warnings

import torch

torch.manual_seed(0)
x = torch.randn(4, 6, requires_grad=True)
w = torch.randn(6, 3, requires_grad=True)
output = x @ w
loss = output.pow(2).mean()
print(x.is_leaf, w.is_leaf, output.is_leaf, loss.is_leaf)
print(x.grad_fn is None, output.grad_fn is not None, output.requires_grad, loss.shape)

output.retain_grad()
loss.backward()
print(loss)
print(output.grad)
print(w.grad)
print(torch.allclose(w.grad, x.detach().T @ (2 * output.detach() / output.numel())))

hidden = (x * 2).sum()
hidden.backward()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(hidden.grad, [warning.category.__name__ for warning in caught])

with torch.no_grad():
    print((x * 2).requires_grad)
print((x * 2).detach().requires_grad, x.grad.requires_grad)

weights = torch.tensor([1.0, 10.0])
y = torch.tensor([2.0, 3.0], requires_grad=True)
(y * y).backward(weights)
print(y.grad)
print(torch.autograd.grad((y**3).sum(), y))
first = torch.autograd.grad((y**3).sum(), y, create_graph=True)[0]
first.sum().backward()
print(first.detach(), y.grad)
