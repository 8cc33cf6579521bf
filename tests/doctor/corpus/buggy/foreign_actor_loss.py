"""The actor's loss goes through the critic; the critic is cleared too early."""

import torch
from torch import nn


class Agent:
    def __init__(self):
        self.actor, self.critic = nn.Linear(3, 1), nn.Linear(4, 1)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def update(self, state, action, reward):
        self.critic_optimizer.zero_grad()
        self.actor_optimizer.zero_grad()
        actor_loss = -self.critic(torch.cat([state, torch.tanh(self.actor(state))], 1)).mean()
        actor_loss.backward()
        self.actor_optimizer.step()
        value = self.critic(torch.cat([state, action], 1))
        critic_loss = nn.functional.mse_loss(value, reward)
        critic_loss.backward()
        self.critic_optimizer.step()  # <- foreign-gradient


torch.manual_seed(0)
agent = Agent()
for _ in range(5):
    agent.update(torch.randn(8, 3), torch.randn(8, 1), torch.randn(8, 1))
