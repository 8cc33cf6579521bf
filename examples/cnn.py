"""A convolutional network that tells discs, squares, triangles and crosses apart.

    cleargrad run examples/cnn.py --epochs 6

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

The shapes are drawn by the script: at random places, in random sizes, over noise.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SIZE = 20
CLASSES = ["disc", "square", "triangle", "cross"]


def make_shapes(count: int, noise: float = 0.3) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (count, 1, SIZE, SIZE) and the index of the class of each (count,)."""
    labels = torch.randint(0, len(CLASSES), (count,))
    radius = 3 + 3 * torch.rand(count, 1, 1)
    centre = 7 + (SIZE - 14) * torch.rand(count, 2, 1, 1)
    rows = torch.arange(SIZE).view(1, SIZE, 1) - centre[:, 0]  # (count, SIZE, 1)
    columns = torch.arange(SIZE).view(1, 1, SIZE) - centre[:, 1]  # (count, 1, SIZE)

    in_square = torch.maximum(rows.abs(), columns.abs()) < radius
    disc = rows**2 + columns**2 < radius**2
    triangle = in_square & (columns.abs() < (rows + radius) / 2)
    cross = in_square & (torch.minimum(rows.abs(), columns.abs()) < radius / 3)
    candidates = torch.stack([disc, in_square, triangle, cross])  # (classes, count, SIZE, SIZE)
    images = candidates[labels, torch.arange(count)].float()
    return (images + noise * torch.randn_like(images)).unsqueeze(1), labels


def block(inputs: int, outputs: int) -> nn.Sequential:
    """Halves the height and the width."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.GELU(),
        nn.AvgPool2d(2),
    )


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(block(1, 8), block(8, 16))
        self.pool = nn.AdaptiveMaxPool2d(1)
        self.classifier = nn.Linear(16, len(CLASSES))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.features(images)  # (batch, 16, SIZE / 4, SIZE / 4)
        x = self.pool(x).flatten(1)  # (batch, 16)
        return self.classifier(x)  # (batch, classes)


@torch.no_grad()
def evaluate(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Loss, and a matrix whose row is the class, whose column what the network took it for."""
    model.eval()
    logits = model(images)
    pairs = labels * len(CLASSES) + logits.argmax(dim=1)
    confusion = torch.bincount(pairs, minlength=len(CLASSES) ** 2).view(len(CLASSES), len(CLASSES))
    return F.cross_entropy(logits, labels).item(), confusion


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make one program of each training step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    train_set = TensorDataset(*make_shapes(args.images))
    test_images, test_labels = make_shapes(400)
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)

    model = ConvNet()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(loader))

    def step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        return loss

    if args.compile:
        step = torch.compile(step)
    print(model)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for images, labels in loader:
            total += step(images, labels).item()
            scheduler.step()
        test_loss, confusion = evaluate(model, test_images, test_labels)
        accuracy = confusion.trace() / confusion.sum()
        print(
            f"epoch {epoch + 1}   train loss {total / len(loader):.5f}"
            f"   test loss {test_loss:.5f}   accuracy {accuracy.item():.1%}"
        )

    print("\n" + " " * 10 + "".join(f"{name:>10s}" for name in CLASSES))
    for name, row in zip(CLASSES, confusion.tolist()):
        print(f"{name:10s}" + "".join(f"{number:10d}" for number in row))


if __name__ == "__main__":
    main()
