"""Two optimizers, but only one of them is ever stepped."""

import torch
from torch import nn

torch.manual_seed(0)
policy, value = nn.Linear(4, 2), nn.Linear(4, 1)
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
value_optimizer = torch.optim.Adam(value.parameters(), lr=1e-3)  # <- parameter-not-in-optimizer
for _ in range(8):
    state, reward = torch.randn(8, 4), torch.randn(8)
    advantage = reward - value(state).squeeze(-1).detach()
    policy_loss = -(torch.log_softmax(policy(state), -1)[:, 0] * advantage).mean()
    value_loss = nn.functional.mse_loss(value(state).squeeze(-1), reward)
    policy_optimizer.zero_grad()
    value_optimizer.zero_grad()
    (policy_loss + value_loss).backward()
    policy_optimizer.step()
