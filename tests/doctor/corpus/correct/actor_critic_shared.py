"""Correct as well: actor critic shared."""

import torch
from torch import nn


class AC(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.pi, self.v = nn.Linear(4, 6), nn.Linear(6, 2), nn.Linear(6, 1)

    def forward(self, s):
        h = torch.tanh(self.body(s))
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


torch.manual_seed(0)
net = AC()
opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
for _ in range(6):
    log_probs, values, rewards = [], [], []
    for _ in range(5):
        dist, v = net(torch.randn(4))
        a = dist.sample()
        log_probs.append(dist.log_prob(a))
        values.append(v)
        rewards.append(float(a))
    returns = torch.tensor(rewards)
    values = torch.stack(values)
    adv = returns - values.detach()
    loss = -(torch.stack(log_probs) * adv).sum() + nn.functional.mse_loss(values, returns)
    opt.zero_grad()
    loss.backward()
    opt.step()
