"""PPO reuses the rollout data (not the gradients) for several epochs and leaves the epoch loop early on KL
before any backward.
"""

import torch
from torch import nn
from torch.distributions import Normal


class AC(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu, self.v = nn.Linear(3, 1), nn.Linear(3, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def dist(self, o):
        return Normal(self.mu(o), self.log_std.exp())


torch.manual_seed(0)
ac = AC()
opt = torch.optim.Adam(ac.parameters(), lr=3e-2, eps=1e-5)
for it in range(6):
    obs = torch.randn(64, 3)
    with torch.no_grad():
        act = ac.dist(obs).sample()
        old = ac.dist(obs).log_prob(act)
        ret = -(act - obs[:, :1]).pow(2)
        adv = ret - ac.v(obs)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for epoch in range(5):
        for mb in torch.randperm(64).split(32):
            d = ac.dist(obs[mb])
            logp = d.log_prob(act[mb])
            ratio = (logp - old[mb]).exp()
            if (old[mb] - logp).mean().item() > 0.02 and epoch > 0:
                break
            pi = -torch.min(ratio * adv[mb], ratio.clamp(0.8, 1.2) * adv[mb]).mean()
            vf = (ac.v(obs[mb]) - ret[mb]).pow(2).mean()
            opt.zero_grad()
            (pi + 0.5 * vf - 0.01 * d.entropy().mean()).backward()
            nn.utils.clip_grad_norm_(ac.parameters(), 0.5)
            opt.step()
        else:
            continue
        break
    print(it, epoch, ret.mean().item())
