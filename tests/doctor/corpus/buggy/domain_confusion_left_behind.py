"""The encoder's adversarial loss fills the domain classifier, whose next step uses it."""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
label, domain = nn.Linear(6, 3), nn.Linear(6, 2)
opt_main = torch.optim.Adam([*encoder.parameters(), *label.parameters()], lr=1e-3)
opt_domain = torch.optim.Adam(domain.parameters(), lr=1e-3)
ce = nn.CrossEntropyLoss()
for _ in range(6):
    source, target, y = torch.randn(8, 4), torch.randn(8, 4) + 1, torch.randint(0, 3, (8,))
    both, where = torch.cat([source, target]), torch.tensor([0] * 8 + [1] * 8)
    opt_main.zero_grad()
    loss = ce(label(encoder(source)), y) - 0.1 * ce(domain(encoder(both)), where)
    loss.backward()
    opt_main.step()
    ce(domain(encoder(both).detach()), where).backward()
    opt_domain.step()  # <- foreign-gradient
    opt_domain.zero_grad()
