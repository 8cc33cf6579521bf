"""Only the generator's gradients are cleared."""
# companions: foreign-gradient

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for _ in range(6):
    real, noise = torch.randn(8, 2) + 2, torch.randn(8, 2)
    fake = generator(noise)
    loss_c = bce(critic(real), torch.ones(8, 1)) + bce(critic(fake.detach()), torch.zeros(8, 1))
    loss_c.backward()
    opt_c.step()  # <- gradient-reused

    opt_g.zero_grad()
    bce(critic(fake), torch.ones(8, 1)).backward()
    opt_g.step()
