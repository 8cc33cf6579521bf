"""OpenAI-ES: no backward at all, the estimated gradient is written into .grad and Adam steps on it."""

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(policy.parameters(), lr=2e-2)
obs = torch.randn(32, 3)


@torch.no_grad()
def fitness(vec):
    vector_to_parameters(vec, policy.parameters())
    return -(policy(obs) - obs.sum(1, keepdim=True)).pow(2).mean().item()


for gen in range(10):
    theta = parameters_to_vector(policy.parameters()).detach().clone()
    eps = torch.randn(16, theta.numel())
    f = torch.tensor([fitness(theta + 0.05 * e) - fitness(theta - 0.05 * e) for e in eps])
    g = -(f[:, None] * eps).mean(0) / 0.1
    vector_to_parameters(theta, policy.parameters())
    i = 0
    for p in policy.parameters():
        p.grad = g[i : i + p.numel()].view_as(p).clone()
        i += p.numel()
    opt.step()
print(fitness(parameters_to_vector(policy.parameters()).detach()))
