"""A variational autoencoder of faces: it learns what varies between them, then draws faces of its own.

    cleargrad run examples/vae.py --epochs 15

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

A face has 12 by 12 pixels. Eyes, mouth and head are drawn by the script; how far apart, how wide, how happy
is random. Four latent numbers must hold all of that.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SIZE = 12
SHADES = " .:-=+*#%@"


def make_faces(count: int) -> torch.Tensor:
    """Images (count, SIZE, SIZE) with values from 0 to 1."""
    low, high = torch.tensor([3.8, 1.2, 1.0, -0.25]), torch.tensor([5.6, 2.4, 2.4, 0.25])
    radius, eyes, mouth, smile = (low + (high - low) * torch.rand(count, 1, 1, 4)).unbind(dim=-1)
    y = torch.arange(SIZE).view(1, SIZE, 1) - (SIZE - 1) / 2  # (1, SIZE, 1)
    x = torch.arange(SIZE).view(1, 1, SIZE) - (SIZE - 1) / 2  # (1, 1, SIZE)

    head = torch.exp(-2 * ((x**2 + y**2).sqrt() - radius) ** 2)  # (count, SIZE, SIZE)
    eye = torch.exp(-2 * ((x.abs() - eyes) ** 2 + (y + 1.5) ** 2))
    curve = 2 + smile * (1 - x**2)
    lips = torch.exp(-2 * (y - curve) ** 2) * torch.sigmoid(4 * (mouth - x.abs()))
    return (head + eye + lips).clamp(max=1)


class VAE(nn.Module):
    def __init__(self, hidden: int = 128, latent: int = 4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(SIZE * SIZE, hidden), nn.Tanh())
        self.mean = nn.Linear(hidden, latent)
        self.log_variance = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden),
            nn.Tanh(),
            nn.Linear(hidden, SIZE * SIZE),
            nn.Unflatten(1, (SIZE, SIZE)),
        )

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.encoder(images)  # (batch, hidden)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)  # (batch, latent)
        # The noise is a constant to autograd, so gradients reach mean and variance through the sample.
        sample = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        return self.decoder(sample), mean, log_variance


def losses(
    images: torch.Tensor, logits: torch.Tensor, mean: torch.Tensor, log_variance: torch.Tensor
) -> tuple:
    """What it costs to redraw the images, and how far the latents are from a standard normal; per image."""
    redraw = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
    return redraw / len(images), divergence / len(images)


def draw(images: torch.Tensor) -> str:
    """Images side by side, in characters."""
    rows = torch.cat(list(images), dim=1).clamp(0, 1)  # (SIZE, count * SIZE)
    return "\n".join("".join(SHADES[int(9.99 * value)] * 2 for value in row) for row in rows.tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make one program of each training step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    loader = DataLoader(TensorDataset(make_faces(args.images)), batch_size=args.batch_size, shuffle=True)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    def step(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        optimizer.zero_grad()
        redraw, divergence = losses(images, *model(images))
        (redraw + divergence).backward()
        optimizer.step()
        return redraw, divergence

    if args.compile:
        step = torch.compile(step)
    for epoch in range(args.epochs):
        totals = torch.zeros(2)
        for (images,) in loader:
            totals += torch.stack(step(images)).detach()
        redraw, divergence = (totals / len(loader)).tolist()
        print(
            f"epoch {epoch + 1:2d}   loss {redraw + divergence:.4f}"
            f"   redraw {redraw:.4f}   divergence {divergence:.4f}"
        )

    model.eval()
    with torch.no_grad():
        faces = model.decoder(torch.randn(4, 4)).sigmoid()
    print("\nFaces that nobody drew:\n" + draw(faces))


if __name__ == "__main__":
    main()
