"""Actor and critic: one backward per move, as many as an episode has, then one step each; a soft target."""

import copy
import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
actor, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
target = copy.deepcopy(critic)
opt_a, opt_c = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 1e-3)
for episode in range(15):
    opt_a.zero_grad()
    opt_c.zero_grad()
    state = torch.randn(4)
    for move in range(random.randint(1, 6)):
        choice = torch.distributions.Categorical(logits=actor(state))
        action, following = choice.sample(), torch.randn(4)
        with torch.no_grad():
            goal = 0.5 + 0.9 * target(following)
        error = goal - critic(state)
        (error.pow(2).sum() - choice.log_prob(action) * error.detach().sum()).backward()
        state = following
    opt_a.step()
    opt_c.step()
    with torch.no_grad():
        for slow, quick in zip(target.parameters(), critic.parameters()):
            slow.mul_(0.95).add_(quick, alpha=0.05)
