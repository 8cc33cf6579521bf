"""TD3: the actor steps every second time, through a critic whose gradients are cleared before its own loss."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 1), nn.Linear(4, 1)
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_optimizer, critic_optimizer = (
    torch.optim.Adam(actor.parameters()),
    torch.optim.Adam(critic.parameters()),
)
for step in range(10):
    s, a, r, s2 = torch.randn(8, 3), torch.randn(8, 1), torch.randn(8, 1), torch.randn(8, 3)
    with torch.no_grad():
        goal = r + 0.9 * critic_target(torch.cat([s2, actor_target(s2)], 1))
    critic_loss = nn.functional.mse_loss(critic(torch.cat([s, a], 1)), goal)
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
    if step % 2:
        actor_optimizer.zero_grad()
        (-critic(torch.cat([s, actor(s)], 1)).mean()).backward()
        actor_optimizer.step()
        with torch.no_grad():
            for old, new in ((actor_target, actor), (critic_target, critic)):
                for p, n in zip(old.parameters(), new.parameters()):
                    p.lerp_(n, 0.01)
