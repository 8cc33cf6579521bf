"""A recurrent network that reads a short story letter by letter, then tells it on in its own words.

    cleargrad run examples/char_lstm.py --epochs 30

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

The story is cut into rows that are read side by side. The state of the LSTM is handed from one piece of a row
to the next, but gradients are not: each piece is backpropagated by itself.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

STORY = Path(__file__).with_name("lighthouse.txt")


class CharLSTM(nn.Module):
    def __init__(self, letters: int, embedding: int = 24, hidden: int = 96):
        super().__init__()
        self.embedding = nn.Embedding(letters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.head = nn.Linear(hidden, letters)

    def forward(self, indices: torch.Tensor, state: tuple | None = None) -> tuple[torch.Tensor, tuple]:
        x = self.embedding(indices)  # (batch, time, embedding)
        x, state = self.lstm(x, state)  # (batch, time, hidden)
        return self.head(x), state  # (batch, time, letters)


def cut(text: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The text in rows, and for each letter of them the one that follows; both (rows, length)."""
    length = (len(text) - 1) // rows
    inputs = text[: rows * length].view(rows, length)
    targets = text[1 : rows * length + 1].view(rows, length)
    return inputs, targets


def make_step(model: CharLSTM, optimizer: torch.optim.Optimizer) -> Callable:
    def step(x: torch.Tensor, y: torch.Tensor, state: tuple | None) -> tuple[torch.Tensor, tuple]:
        optimizer.zero_grad()
        logits, state = model(x, state)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        return loss, tuple(part.detach() for part in state)

    return step


def train_epoch(
    model: CharLSTM, inputs: torch.Tensor, targets: torch.Tensor, step: Callable, piece: int
) -> float:
    model.train()
    state, total, count = None, 0.0, 0
    for x, y in zip(inputs.split(piece, dim=1), targets.split(piece, dim=1)):
        loss, state = step(x, y, state)
        total += loss.item() * y.numel()
        count += y.numel()
    return total / count


@torch.no_grad()
def tell(model: CharLSTM, start: str, length: int, alphabet: list[str], temperature: float) -> str:
    model.eval()
    indices = torch.tensor([[alphabet.index(letter) for letter in start]])  # (1, time)
    state, letters = None, list(start)
    for _ in range(length):
        logits, state = model(indices, state)
        probabilities = F.softmax(logits[:, -1] / temperature, dim=-1)  # (1, letters)
        indices = torch.multinomial(probabilities, num_samples=1)  # (1, 1)
        letters.append(alphabet[indices.item()])
    return "".join(letters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--piece", type=int, default=32, help="letters per backward pass")
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--temperature", type=float, default=0.4)
    parser.add_argument("--text", type=Path, default=STORY)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make one program of each training step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    story = args.text.read_text(encoding="utf-8").replace("\n", " ")
    alphabet = sorted(set(story))
    text = torch.tensor([alphabet.index(letter) for letter in story])
    inputs, targets = cut(text, args.rows)

    model = CharLSTM(len(alphabet))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    step = make_step(model, optimizer)
    if args.compile:
        step = torch.compile(step)
    print(f"{len(text)} letters, {len(alphabet)} different ones")
    for epoch in range(args.epochs):
        loss = train_epoch(model, inputs, targets, step, args.piece)
        if epoch == 0 or (epoch + 1) % 5 == 0:
            print(f"epoch {epoch + 1:3d}   loss per letter {loss:.5f}")
            print(f"            {tell(model, 'The keeper', 80, alphabet, args.temperature)}")


if __name__ == "__main__":
    main()
