"""A small transformer that learns to write like a short story, letter by letter.

    cleargrad run examples/char_gpt.py --steps 400

With PyTorch installed, `python` in place of `cleargrad run` prints the same.

It has what a large one has: token and position embeddings, causal attention with several heads, layers that
normalise first, tied weights, weight decay on matrices only, and a learning rate that warms up and then decays.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

STORY = Path(__file__).with_name("lighthouse.txt")


@dataclass
class Config:
    letters: int
    context: int = 48
    layers: int = 2
    heads: int = 4
    width: int = 64
    dropout: float = 0.0


class Attention(nn.Module):
    """Each position looks at itself and those before it."""

    def __init__(self, config: Config):
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        parts = self.query_key_value(x).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, time, width / heads)
        dropout = self.dropout if self.training else 0.0
        x = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        return self.out(x.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.mlp_norm = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class GPT(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.letters, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.letters, bias=False)
        self.apply(self.initialize)
        self.head.weight = self.token.weight

    def initialize(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(indices.shape[1], device=indices.device)
        x = self.token(indices) + self.position(positions)  # (batch, time, width)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # (batch, time, letters)

    @torch.no_grad()
    def write(self, indices: torch.Tensor, count: int, temperature: float) -> torch.Tensor:
        """Appends `count` letters to each row of indices."""
        self.eval()
        for _ in range(count):
            logits = self(indices[:, -self.config.context :])[:, -1]  # (batch, letters)
            probabilities = F.softmax(logits / temperature, dim=-1)
            indices = torch.cat([indices, torch.multinomial(probabilities, num_samples=1)], dim=1)
        self.train()
        return indices


def make_optimizer(model: nn.Module, lr: float) -> torch.optim.Optimizer:
    """AdamW that leaves vectors (biases and the scales of norms) without decay."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def schedule(step: int, steps: int, warmup: int) -> float:
    """Up in a line, down along a cosine to a tenth."""
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))


def get_batch(text: torch.Tensor, size: int, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pieces of the text and, for each letter, the one that follows; both (size, context)."""
    starts = torch.randint(len(text) - context, (size,)).tolist()
    inputs = torch.stack([text[start : start + context] for start in starts])
    targets = torch.stack([text[start + 1 : start + context + 1] for start in starts])
    return inputs, targets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--text", type=Path, default=STORY)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="make one program of each training step")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    story = args.text.read_text(encoding="utf-8").replace("\n", " ")
    alphabet = sorted(set(story))
    text = torch.tensor([alphabet.index(letter) for letter in story])

    model = GPT(Config(letters=len(alphabet)))
    optimizer = make_optimizer(model, args.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: schedule(step, args.steps, warmup=20)
    )

    def train(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        return loss, norm

    if args.compile:
        train = torch.compile(train)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(text)} letters")
    for step in range(1, args.steps + 1):
        lr = scheduler.get_last_lr()[0]
        loss, norm = train(*get_batch(text, args.batch_size, model.config.context))
        scheduler.step()
        if step == 1 or step % 25 == 0:
            print(f"step {step:4d}   loss {loss.item():.5f}   gradient norm {norm.item():.4f}   lr {lr:.6f}")

    start = torch.tensor([[alphabet.index(letter) for letter in "The keeper"]])
    written = model.write(start, count=200, temperature=args.temperature)[0].tolist()
    print("\n" + "".join(alphabet[index] for index in written))


if __name__ == "__main__":
    main()
