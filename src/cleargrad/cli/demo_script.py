"""A small network learns to read handwritten digits. Written by `cleargrad demo`; yours to change.

python right.py --compile
cleargrad doctor forgetful.py       # the same program without optimizer.zero_grad()
"""

import sys

import cleargrad as torch
from cleargrad import nn
from cleargrad.datasets import digits


def train(steps=1000, compiled=False):
    """Gives the loss of every step and, every 20 steps, the accuracy on images that were held back."""
    torch.manual_seed(0)
    images, labels = digits()  # (1797, 1, 8, 8) from 0 to 1, and (1797,)
    order = torch.randperm(len(images))
    seen, held_back = order[:1500], order[1500:]
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = torch.compile(step)
    for number in range(1, steps + 1):
        batch = seen[torch.randint(len(seen), (64,))]
        loss = step(images[batch], labels[batch]).item()
        accuracy = None
        if number % 20 == 0 or number == steps:
            with torch.no_grad():
                right = model(images[held_back]).argmax(1) == labels[held_back]
            accuracy = right.float().mean().item()
        yield loss, accuracy


if __name__ == "__main__":
    for number, (loss, accuracy) in enumerate(train(compiled="--compile" in sys.argv), 1):
        if number % 100 == 0:
            print(f"step {number:5d}   loss {loss:.3f}   accuracy {accuracy:.1%}")
