"""A teacher that is neither frozen nor run under no_grad collects gradients."""

import torch
from torch import nn

torch.manual_seed(0)
student, teacher = nn.Linear(4, 3), nn.Linear(4, 3)
teacher.eval()
optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
for _ in range(6):
    x = torch.randn(8, 4)
    loss = nn.functional.mse_loss(student(x), teacher(x))
    optimizer.zero_grad()
    loss.backward()  # <- outside-accumulation
    optimizer.step()
