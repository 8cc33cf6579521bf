"""Every layer has its own optimizer and only one layer moves per iteration, so the gradients of the resting
layers are cleared on purpose.
"""

import torch
from torch import nn

torch.manual_seed(5)
net = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 1))
blocks = [net[0], net[2], net[4]]
optimizers = [torch.optim.SGD(b.parameters(), lr=0.1) for b in blocks]
x = torch.randn(70, 5)
y = torch.sin(x.sum(1, keepdim=True))
trace = []
for it in range(30):
    net.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizers[it % 3].step()  # the block whose turn it is
    trace.append(loss.item())
print(trace[0], trace[-1])
assert trace[-1] < trace[0]
