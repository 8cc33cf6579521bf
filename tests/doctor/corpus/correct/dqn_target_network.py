"""DQN with a target network that is copied every four steps."""

import torch
from torch import nn

torch.manual_seed(0)
q, target = nn.Linear(4, 2), nn.Linear(4, 2)
target.load_state_dict(q.state_dict())
optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
for step in range(10):
    s, a, r, s2 = torch.randn(8, 4), torch.randint(0, 2, (8, 1)), torch.randn(8), torch.randn(8, 4)
    expected = r + 0.9 * target(s2).max(1).values.detach()
    loss = nn.functional.smooth_l1_loss(q(s).gather(1, a).squeeze(1), expected)
    optimizer.zero_grad()
    loss.backward()
    for p in q.parameters():
        p.grad.data.clamp_(-1, 1)
    optimizer.step()
    if step % 4 == 0:
        target.load_state_dict(q.state_dict())
