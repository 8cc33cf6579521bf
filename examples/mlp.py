"""A multilayer perceptron that reads digits drawn on a grid of 10 by 8 pixels.

    cleargrad run examples/mlp.py --epochs 12

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

The digits are a small bitmap font, shifted at random and covered with noise.
"""

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HEIGHT, WIDTH = 10, 8
FONT = [  # one digit is seven rows of five pixels
    ".###. #...# #...# #...# #...# #...# .###.",
    "..#.. .##.. ..#.. ..#.. ..#.. ..#.. .###.",
    ".###. #...# ....# ...#. ..#.. .#... #####",
    ".###. #...# ....# ..##. ....# #...# .###.",
    "...#. ..##. .#.#. #..#. ##### ...#. ...#.",
    "##### #.... ####. ....# ....# #...# .###.",
    ".###. #.... #.... ####. #...# #...# .###.",
    "##### ....# ...#. ..#.. .#... .#... .#...",
    ".###. #...# #...# .###. #...# #...# .###.",
    ".###. #...# #...# .#### ....# ....# .###.",
]


def make_digits(count: int, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (count, 10, 8) and the digit each shows (count,)."""
    glyphs = torch.tensor(
        [[[float(pixel == "#") for pixel in row] for row in glyph.split()] for glyph in FONT]
    )
    labels = torch.randint(0, 10, (count,))
    tops = torch.randint(0, HEIGHT - 7 + 1, (count,)).tolist()
    lefts = torch.randint(0, WIDTH - 5 + 1, (count,)).tolist()
    images = torch.zeros(count, HEIGHT, WIDTH)
    for image, glyph, top, left in zip(images, glyphs[labels], tops, lefts):
        image[top : top + 7, left : left + 5] = glyph
    return images + noise * torch.randn_like(images), labels


class Classifier(nn.Module):
    def __init__(self, hidden: int = 128, dropout: float = 0.2):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(HEIGHT * WIDTH, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, 10),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)  # (batch, 10)


def make_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable:
    def step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def train_epoch(model: nn.Module, loader: DataLoader, step: Callable) -> float:
    model.train()
    total = 0.0
    for images, labels in loader:
        total += step(images, labels).item() * len(images)
    return total / len(loader.dataset)


@torch.no_grad()
def evaluate(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, float]:
    """Loss and accuracy."""
    model.eval()
    logits = model(images)
    accuracy = (logits.argmax(dim=1) == labels).float().mean()
    return F.cross_entropy(logits, labels).item(), accuracy.item()


def draw(images: torch.Tensor) -> str:
    """Images side by side, in characters."""
    rows = torch.cat(list(F.pad(images, (0, 4))), dim=1)  # (HEIGHT, count * (WIDTH + 4))
    return "\n".join("".join("#" if pixel > 0.5 else " " for pixel in row) for row in rows.tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make one program of each training step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    train_set = TensorDataset(*make_digits(args.images, args.noise))
    test_images, test_labels = make_digits(1000, args.noise)
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)

    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    step = make_step(model, optimizer)
    if args.compile:
        step = torch.compile(step)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(train_set)} images")
    for epoch in range(args.epochs):
        train_loss = train_epoch(model, loader, step)
        test_loss, accuracy = evaluate(model, test_images, test_labels)
        print(
            f"epoch {epoch + 1:2d}   train loss {train_loss:.5f}"
            f"   test loss {test_loss:.5f}   accuracy {accuracy:.1%}"
        )

    print("\n" + draw(test_images[:6]))
    with torch.no_grad():
        sure, guesses = model(test_images[:6]).softmax(dim=1).max(dim=1)
    for label, guess, probability in zip(test_labels.tolist(), guesses.tolist(), sure.tolist()):
        print(f"This is a {label}; the network says {guess} and is {probability:.2%} sure.")


if __name__ == "__main__":
    main()
