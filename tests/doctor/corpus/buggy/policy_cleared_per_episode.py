"""An online policy clears once per episode, and steps in every move."""

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(3):
    state = torch.randn(4)
    optimizer.zero_grad()
    for move in range(5):
        choice = torch.distributions.Categorical(logits=policy(state))
        action = choice.sample()
        reward = float(state[0] > 0) * 2 - 1
        (-choice.log_prob(action) * reward).backward()
        optimizer.step()  # <- gradient-reused
        state = torch.randn(4)
