"""The loop that tutorials recommend: train, clip, schedule, evaluate."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(10)
x = torch.randn(60, 4)
y = (x[:, 0] * x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(
    nn.Linear(4, 16, bias=False), nn.BatchNorm1d(16), nn.SiLU(), nn.Dropout(0.1), nn.Linear(16, 2)
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
print(model)
for epoch in range(5):
    model.train()
    running = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        running += loss.item() * inputs.size(0)
    scheduler.step()
    model.eval()
    with torch.no_grad():
        logits = model(x)
        correct = (logits.argmax(1) == y).sum().item()
    print(epoch, f"{running / len(x):.5f}", correct, scheduler.get_last_lr(), logits[0])
print(model[1].running_mean, model[1].num_batches_tracked)
print({key: tuple(value.shape) for key, value in model.state_dict().items()})
