"""REINFORCE: log-probabilities are collected over an episode, one backward at its end."""

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for _ in range(7):
    saved, rewards = [], []
    for _ in range(5):
        logits = policy(torch.randn(4))
        dist = torch.distributions.Categorical(logits=logits)
        action = dist.sample()
        saved.append(dist.log_prob(action))
        rewards.append(float(action.item()))
    loss = torch.stack([-logp * sum(rewards[i:]) for i, logp in enumerate(saved)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
