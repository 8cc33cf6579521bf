"""Linear regression: finds out what a house is worth per square metre, per room and per kilometre to the sea.

    cleargrad run examples/regression.py --epochs 40

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

The prices are made from known coefficients plus noise, so the last lines can show how close training came.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

FEATURES = ["per square metre", "per room", "per km to the sea"]
COEFFICIENTS = [3.2, 15.0, -8.0]  # thousands
BASE_PRICE = 60.0


def make_houses(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features (count, 3) and prices (count, 1)."""
    area = 40 + 160 * torch.rand(count)
    rooms = (area / 25 + torch.randn(count)).round().clamp(min=1)
    distance = 10 * torch.rand(count)
    features = torch.stack([area, rooms, distance], dim=1)  # (count, 3)
    prices = features @ torch.tensor(COEFFICIENTS) + BASE_PRICE + 20 * torch.randn(count)  # (count,)
    return features, prices.unsqueeze(1)


def evaluate(model: nn.Module, loader: DataLoader, criterion: nn.Module) -> float:
    """Mean loss over all samples of a loader."""
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            total += criterion(model(x), y).item() * len(x)
            count += len(x)
    return total / count


def train(
    model: nn.Module,
    train_loader: DataLoader,
    test_loader: DataLoader,
    epochs: int,
    lr: float,
    compiled: bool,
) -> None:
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=max(1, epochs // 3), gamma=0.3)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = torch.compile(step)
    for epoch in range(epochs):
        model.train()
        for x, y in train_loader:
            step(x, y)
        scheduler.step()
        if epoch == 0 or (epoch + 1) % 5 == 0:
            train_loss = evaluate(model, train_loader, criterion)
            test_loss = evaluate(model, test_loader, criterion)
            print(f"epoch {epoch + 1:3d}   train loss {train_loss:.6f}   test loss {test_loss:.6f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--houses", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make one program of each training step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    features, prices = make_houses(args.houses)
    # Gradient descent wants inputs and outputs of size one; the coefficients are scaled back at the end.
    feature_mean, feature_std = features.mean(dim=0), features.std(dim=0)
    price_mean, price_std = prices.mean(), prices.std()
    dataset = TensorDataset((features - feature_mean) / feature_std, (prices - price_mean) / price_std)
    train_set, test_set = random_split(dataset, [0.8, 0.2])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=256)

    model = nn.Linear(3, 1)
    train(model, train_loader, test_loader, args.epochs, args.lr, args.compile)

    with torch.no_grad():
        learned = (model.weight[0] * price_std / feature_std).tolist()
    print("\nthousands           learned    true")
    for name, found, true in zip(FEATURES, learned, COEFFICIENTS):
        print(f"{name:18s} {found:8.4f} {true:7.1f}")


if __name__ == "__main__":
    main()
