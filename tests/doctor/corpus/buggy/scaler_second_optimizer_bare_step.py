"""Two optimizers under AMP: the encoder goes through scaler.step but the head's optimizer is stepped bare on
scaled gradients.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(12, 24), nn.ReLU())
head = nn.Linear(24, 3)
opt_enc = torch.optim.Adam(encoder.parameters(), lr=1e-3)
opt_head = torch.optim.Adam(head.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
X = torch.randn(60, 12)
Y = X[:, :3].argmax(1)

for it in range(15):
    idx = torch.randperm(60)[:20]
    opt_enc.zero_grad()
    opt_head.zero_grad()
    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        logits = head(encoder(X[idx]))
    loss = F.cross_entropy(logits.float(), Y[idx])
    scaler.scale(loss).backward()
    scaler.step(opt_enc)
    opt_head.step()  # <- scaler-misused
    scaler.update()
    if it % 5 == 0:
        print(it, loss.item())
