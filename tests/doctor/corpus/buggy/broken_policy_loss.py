"""REINFORCE collects the per-step losses and re-wraps them with torch.tensor(..., requires_grad=True), a new
leaf.
"""

import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, s):
        return Categorical(logits=self.net(s))


def run_episode(policy, T=10):
    s, logps, rewards = torch.randn(4), [], []
    for _ in range(T):
        dist = policy(s)
        a = dist.sample()
        logps.append(dist.log_prob(a))
        rewards.append(1.0 if (a.item() == 1) == (s[0].item() > 0) else 0.0)
        s = torch.randn(4)
    return logps, rewards


def main():
    torch.manual_seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for episode in range(10):
        logps, rewards = run_episode(policy)
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        losses = [-lp * r for lp, r in zip(logps, returns)]
        loss = torch.tensor([l.item() for l in losses], requires_grad=True).sum()  # <- graph-broken
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(episode, sum(rewards))


main()
