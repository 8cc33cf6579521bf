"""Another mistake: foreign two critics."""

import torch
from torch import nn

torch.manual_seed(0)
enc, adv, cls = nn.Linear(5, 4), nn.Linear(4, 2), nn.Linear(4, 3)
opt_main = torch.optim.Adam([*enc.parameters(), *cls.parameters()])
opt_adv = torch.optim.Adam(adv.parameters())
for _ in range(6):
    x, y, d = torch.randn(8, 5), torch.randint(0, 3, (8,)), torch.randint(0, 2, (8,))
    opt_main.zero_grad()
    opt_adv.zero_grad()
    h = enc(x)
    main_loss = nn.functional.cross_entropy(cls(h), y) - nn.functional.cross_entropy(adv(h), d)
    main_loss.backward()
    opt_main.step()
    adv_loss = nn.functional.cross_entropy(adv(enc(x).detach()), d)
    adv_loss.backward()
    opt_adv.step()  # <- foreign-gradient
