"""The actor loss goes through the critic and leaves gradients there; the critic's next step uses them, its
zero_grad comes too late.
"""

import torch
from torch import nn


class Agent:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 1))
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def q(self, s, a):
        return self.critic(torch.cat([s, a], -1))

    def update_critic(self, s, a, r):
        loss = nn.functional.mse_loss(self.q(s, a), r)
        loss.backward()
        self.critic_opt.step()  # <- foreign-gradient
        self.critic_opt.zero_grad()
        return loss.item()

    def update_actor(self, s):
        loss = -self.q(s, self.actor(s)).mean()
        loss.backward()
        self.actor_opt.step()
        self.actor_opt.zero_grad()
        return loss.item()


torch.manual_seed(0)
agent = Agent()
for it in range(15):
    s = torch.randn(32, 3)
    a = torch.rand(32, 1) * 2 - 1
    r = -(a - s.mean(1, keepdim=True)).pow(2)
    print(it, agent.update_critic(s, a, r), agent.update_actor(s))
