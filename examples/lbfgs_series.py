"""Time series: two LSTM cells learn sine waves of many lengths with LBFGS, then carry them on by themselves.

    cleargrad run examples/lbfgs_series.py --steps 6

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

The network sees one value at a time and says what the next will be. To look further ahead it is fed its own
answers. LBFGS asks for the loss as often as it likes, so it is given a closure; it needs double precision.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

BARS = "▁▂▃▄▅▆▇█"
WARM_UP = 5  # from fewer values than these nobody can tell what comes next


def make_waves(count: int, length: int) -> torch.Tensor:
    """Sine waves (count, length) with periods from 15 to 25 and random phases."""
    period = 15 + 10 * torch.rand(count, 1)
    phase = 2 * math.pi * torch.rand(count, 1)
    return torch.sin(2 * math.pi * torch.arange(length) / period + phase)


class Forecaster(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.first = nn.LSTMCell(1, hidden)
        self.second = nn.LSTMCell(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, series: torch.Tensor, ahead: int = 0) -> torch.Tensor:
        """What follows each value of the series (batch, length), then `ahead` more: (batch, length + ahead)."""
        first = second = None  # a cell without a state starts from zeros
        values = []
        for step in range(series.shape[1] + ahead):
            value = series[:, step : step + 1] if step < series.shape[1] else values[-1]  # (batch, 1)
            first = self.first(value, first)
            second = self.second(first[0], second)
            values.append(self.out(second[0]))
        return torch.cat(values, dim=1)


def draw(values: torch.Tensor) -> str:
    return "".join(BARS[int(3.5 * (value + 1) + 0.5)] for value in values.clamp(-1, 1).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--waves", type=int, default=60)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--ahead", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make one program of each training step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_default_dtype(torch.float64)

    waves = make_waves(args.waves, args.length + 1)
    inputs, targets = waves[:, :-1], waves[:, 1:]
    test = make_waves(4, args.length + args.ahead)

    model = Forecaster(args.hidden)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=10, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs)[:, WARM_UP:], targets[:, WARM_UP:])
        loss.backward()
        return loss

    if args.compile:
        closure = torch.compile(closure)
    for step in range(1, args.steps + 1):
        loss = optimizer.step(closure)
        with torch.no_grad():
            forecast = model(test[:, : args.length], ahead=args.ahead - 1)[:, -args.ahead :]
            error = F.mse_loss(forecast, test[:, args.length :])
        print(
            f"step {step:2d}   loss before it {loss.item():.4e}"
            f"   error {args.ahead} values ahead {error.item():.4e}"
        )

    for true, guess in zip(test[:2, args.length :], forecast):
        print(f"\ntrue      {draw(true)}\nforecast  {draw(guess)}")


if __name__ == "__main__":
    main()
