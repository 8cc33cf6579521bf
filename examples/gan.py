"""A generative adversarial network whose generator learns to throw points onto a ring.

    cleargrad run examples/gan.py --steps 600

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

The discriminator sees true points and thrown points and learns to tell them apart; the generator learns to
make that hard. Neither ever sees the formula of the ring.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

NOISE = 8
RADIUS, THICKNESS = 2.0, 0.1


def true_points(count: int) -> torch.Tensor:
    """Points around a circle, (count, 2)."""
    angle = 2 * math.pi * torch.rand(count)
    radius = RADIUS + THICKNESS * torch.randn(count)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


def make_generator(hidden: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(NOISE, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2)
    )


def make_discriminator(hidden: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(2, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1)
    )


def initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def discriminator_loss(discriminator: nn.Module, true: torch.Tensor, thrown: torch.Tensor) -> torch.Tensor:
    on_true, on_thrown = discriminator(true), discriminator(thrown)
    # A target of 0.9 for true points keeps the discriminator from becoming too sure of itself.
    true_loss = F.binary_cross_entropy_with_logits(on_true, torch.full_like(on_true, 0.9))
    return true_loss + F.binary_cross_entropy_with_logits(on_thrown, torch.zeros_like(on_thrown))


def generator_loss(discriminator: nn.Module, thrown: torch.Tensor) -> torch.Tensor:
    verdict = discriminator(thrown)
    return F.binary_cross_entropy_with_logits(verdict, torch.ones_like(verdict))


@torch.no_grad()
def report(step: int, generator: nn.Module, losses: tuple[float, float], noise: torch.Tensor) -> None:
    distances = generator(noise).norm(dim=1)
    print(
        f"step {step:4d}   discriminator {losses[0]:.5f}   generator {losses[1]:.5f}"
        f"   distance from the centre {distances.mean().item():.5f} ± {distances.std().item():.5f}"
    )


def draw(points: torch.Tensor, cells: int = 24) -> str:
    """A map of how many points fall into each cell."""
    inside = ((points + 3) / 6 * cells).long().clamp(0, cells - 1)
    counts = torch.bincount(inside[:, 1] * cells + inside[:, 0], minlength=cells * cells).view(cells, cells)
    return "\n".join("".join(" .:oO@"[min(number, 5)] * 2 for number in row) for row in counts.tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=48)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make one program of each training step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    generator = make_generator(args.hidden).apply(initialize)
    discriminator = make_discriminator(args.hidden).apply(initialize)
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=args.lr, betas=(0.5, 0.999))
    discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), lr=args.lr, betas=(0.5, 0.999))
    same_noise = torch.randn(512, NOISE)

    def train_both() -> tuple[torch.Tensor, torch.Tensor]:
        thrown = generator(torch.randn(args.batch_size, NOISE))

        discriminator_optimizer.zero_grad()
        # detach: this step must not teach the generator.
        d_loss = discriminator_loss(discriminator, true_points(args.batch_size), thrown.detach())
        d_loss.backward()
        discriminator_optimizer.step()

        generator_optimizer.zero_grad()
        g_loss = generator_loss(discriminator, thrown)
        g_loss.backward()
        generator_optimizer.step()
        return d_loss, g_loss

    if args.compile:
        train_both = torch.compile(train_both)
    for step in range(1, args.steps + 1):
        d_loss, g_loss = train_both()
        if step == 1 or step % 50 == 0:
            report(step, generator, (d_loss.item(), g_loss.item()), same_noise)

    with torch.no_grad():
        print(draw(generator(same_noise)))


if __name__ == "__main__":
    main()
