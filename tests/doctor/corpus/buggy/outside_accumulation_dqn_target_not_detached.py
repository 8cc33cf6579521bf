"""DQN: the bootstrap target is not computed under no_grad, so the target network's .grad grows for ever (only
optimizer.zero_grad() runs).
"""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(0)
torch.manual_seed(0)


def make_net():
    return nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))


policy_net, target_net = make_net(), make_net()
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.Adam(policy_net.parameters(), lr=1e-3)
memory = [(torch.randn(4), random.randrange(2), random.random(), torch.randn(4)) for _ in range(200)]
GAMMA = 0.9


def optimize_model():
    batch = random.sample(memory, 16)
    s = torch.stack([b[0] for b in batch])
    a = torch.tensor([[b[1]] for b in batch])
    r = torch.tensor([b[2] for b in batch])
    s2 = torch.stack([b[3] for b in batch])
    q = policy_net(s).gather(1, a).squeeze(1)
    target = r + GAMMA * target_net(s2).max(1)[0]
    loss = F.smooth_l1_loss(q, target)
    optimizer.zero_grad()
    loss.backward()  # <- outside-accumulation
    optimizer.step()
    return loss.item()


for t in range(25):
    loss = optimize_model()
    if t % 5 == 4:
        target_net.load_state_dict(policy_net.state_dict())
        print(t, loss)
