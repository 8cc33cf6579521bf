"""Only the head is optimized; the backbone is not frozen and its gradients pile up."""

# companions: parameter-not-in-optimizer
import torch
from torch import nn

torch.manual_seed(0)
backbone, head = nn.Linear(4, 8), nn.Linear(8, 2)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for _ in range(6):
    loss = nn.functional.cross_entropy(
        head(torch.relu(backbone(torch.randn(8, 4)))), torch.randint(0, 2, (8,))
    )
    optimizer.zero_grad()
    loss.backward()  # <- outside-accumulation
    optimizer.step()
