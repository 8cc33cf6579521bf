"""A teacher in eval mode under no_grad, a student in train mode with dropout."""

import torch
from torch import nn

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)).eval()
student = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.Linear(4, 3))
optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
for _ in range(6):
    x = torch.randn(8, 4)
    with torch.no_grad():
        soft = teacher(x).softmax(1)
    loss = nn.functional.kl_div(student(x).log_softmax(1), soft, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
