"""Mixed precision with everything that goes with it: scaling, accumulation, clipping and a cosine schedule.

    cleargrad run examples/mixed_precision.py --dtype float16
    cleargrad run examples/mixed_precision.py --dtype bfloat16

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

Matrix products run in 16 bits, the weights stay in 32. float16 has few exponents, so the loss is scaled up before
backward and the gradients are scaled down before they are clipped; bfloat16 needs none of that.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def make_data(count: int, inputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points (count, inputs) and one value for each: a wave along one direction plus a slope along another."""
    x = torch.randn(count, inputs)
    directions = torch.randn(2, inputs, generator=torch.Generator().manual_seed(1)) / inputs**0.5
    along, across = (x @ directions.T).unbind(dim=1)
    return x, (torch.sin(2 * along) + 0.5 * across + 0.3 * torch.randn(count)).unsqueeze(1)


def make_model(inputs: int, hidden: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.LayerNorm(hidden),
        nn.SiLU(),
        nn.Linear(hidden, hidden),
        nn.SiLU(),
        nn.Linear(hidden, 1),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=list(DTYPES), default="float16")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64, help="samples per forward pass")
    parser.add_argument("--accumulate", type=int, default=4, help="forward passes per step")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--max-norm", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make one program of each training step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    dtype = DTYPES[args.dtype]
    loader = DataLoader(
        TensorDataset(*make_data(4096, 16)), batch_size=args.batch_size, shuffle=True, drop_last=True
    )
    test_x, test_y = make_data(1024, 16)

    model = make_model(16, 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    steps = args.epochs * (len(loader) // args.accumulate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=2.0**18, growth_interval=50, enabled=dtype == torch.float16
    )

    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            prediction = model(x)
        return F.mse_loss(prediction.float(), y)

    def accumulate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = loss_of(x, y)
        # Each pass contributes its share, so that the sum is the gradient of the mean over all of them.
        scaler.scale(loss / args.accumulate).backward()
        return loss

    def update() -> None:
        scaler.unscale_(optimizer)  # the norm must be that of the true gradients
        nn.utils.clip_grad_norm_(model.parameters(), args.max_norm)
        scaler.step(optimizer)  # left out where a gradient overflowed
        scaler.update()
        optimizer.zero_grad()

    if args.compile:
        accumulate, update = torch.compile(accumulate), torch.compile(update)
    for epoch in range(1, args.epochs + 1):
        model.train()
        total, skipped = 0.0, 0
        for number, (x, y) in enumerate(loader, start=1):
            total += accumulate(x, y).item()
            if number % args.accumulate:
                continue
            scale = scaler.get_scale()
            update()
            if scaler.get_scale() < scale:
                skipped += 1
            else:
                scheduler.step()
        model.eval()
        with torch.no_grad():
            test_loss = loss_of(test_x, test_y)
        print(
            f"epoch {epoch:2d}   train loss {total / len(loader):.5f}   test loss {test_loss.item():.5f}"
            f"   lr {scheduler.get_last_lr()[0]:.6f}   scale {scaler.get_scale():.0f}   skipped {skipped}"
        )


if __name__ == "__main__":
    main()
