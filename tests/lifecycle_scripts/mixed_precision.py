"""Autocast and GradScaler, on a machine without a GPU."""

import warnings

import torch
from torch import nn

torch.manual_seed(8)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
x, y = torch.randn(16, 6), torch.randn(16, 1)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    scaler = torch.cuda.amp.GradScaler()
    kinds = {warning.category.__name__ for warning in caught}
print(sorted(kinds), scaler.is_enabled(), scaler.get_scale(), scaler.state_dict())

accumulate = 2
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.zero_grad(set_to_none=True)
for number, (part, target) in enumerate(zip(x.split(4), y.split(4)), start=1):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.cuda.amp.autocast():
            loss = nn.functional.mse_loss(model(part), target) / accumulate
    scaler.scale(loss).backward()
    print(loss.dtype, loss)
    if number % accumulate == 0:
        scaler.unscale_(optimizer)
        print(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

for dtype in (torch.bfloat16, torch.float16):
    with torch.autocast("cpu", dtype=dtype):
        output = model(x)
        loss = nn.functional.mse_loss(output, y)
    print(output.dtype, loss.dtype, (model[0](x) + 0).dtype, f"{loss.item():.3f}")

scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
for step in range(6):
    optimizer.zero_grad()
    before = model[2].bias.item()
    scaler.scale(nn.functional.mse_loss(model(x), y)).backward()
    if step == 3:
        model[0].weight.grad[0, 0] = float("inf")
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0) if step != 3 else float("inf")
    scaler.step(optimizer)
    scaler.update()
    print(f"step {step}, scale {scaler.get_scale()}, norm {norm:.5f}, moved {model[2].bias.item() != before}")
print(scaler.state_dict())

for wrong in ("unscale twice", "step twice", "no gradients"):
    scaler = torch.amp.GradScaler("cpu")
    optimizer.zero_grad()
    if wrong != "no gradients":
        scaler.scale(model(x).sum()).backward()
    try:
        if wrong == "unscale twice":
            scaler.unscale_(optimizer)
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.step(optimizer)
    except (RuntimeError, AssertionError) as error:
        print(wrong, isinstance(error, RuntimeError), isinstance(error, AssertionError))
