"""PPO: several epochs over one rollout, policy and value in one network."""

import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.policy, self.value = nn.Linear(4, 8), nn.Linear(8, 2), nn.Linear(8, 1)

    def forward(self, s):
        h = torch.tanh(self.body(s))
        return self.policy(h).log_softmax(-1), self.value(h).squeeze(-1)


torch.manual_seed(0)
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)
for _ in range(3):
    s, a, returns = torch.randn(16, 4), torch.randint(0, 2, (16,)), torch.randn(16)
    with torch.no_grad():
        old, values = agent(s)
    old = old[torch.arange(16), a]
    for _ in range(3):
        logp, v = agent(s)
        ratio = (logp[torch.arange(16), a] - old).exp()
        gain = returns - values
        loss = (
            -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() + 0.5 * (returns - v).pow(2).mean()
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
