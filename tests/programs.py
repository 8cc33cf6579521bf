"""Random programs: lines of Python that run with `T` as PyTorch or as cleargrad.

A program starts with leaves; each line is drawn while PyTorch runs the program, so that most of them fit the
shapes and dtypes that exist by then. `Draw` makes the choices. Read next: tests/program_lines.py.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

SHAPES = [(), (1,), (3,), (4,), (0,), (2, 3), (3, 1), (1, 3), (4, 4), (2, 0), (2, 3, 4), (2, 1, 3), (3, 2, 2)]
DTYPES = ["float32", "float32", "float64", "float64", "float64", "int64", "bool"]
NAME = re.compile(r"\bt\d+\b")


@dataclass(frozen=True)
class Leaf:
    """A tensor that a program starts with."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    needs_grad: bool
    seed: int

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def values(self, variant: int = 0) -> np.ndarray:
        """Small multiples of a quarter: sums and products are exact, so that ties are ties in both."""
        numbers = np.random.default_rng([self.seed, variant]).integers(-8, 9, self.shape)
        if self.dtype == "bool":
            return np.asarray(numbers > 0)
        if self.dtype == "int64":
            return np.asarray(numbers // 2, np.int64)
        return np.asarray(numbers / 4, self.dtype)

    def __str__(self) -> str:
        made = f"{self.name} = T.tensor({self.values().tolist()}, dtype=T.{self.dtype}).reshape({self.shape})"
        return made + (".requires_grad_()" if self.needs_grad else "")


@dataclass(frozen=True)
class Line:
    """One statement; `target` is the name it binds, or None."""

    source: str
    target: str | None = None
    grad: bool = True
    kind: str = "value"  # or view, write, backward

    def uses(self) -> set[str]:
        return set(NAME.findall(self.source))

    def __str__(self) -> str:
        text = self.source if self.target is None else f"{self.target} = {self.source}"
        return text if self.grad else f"with T.no_grad(): {text}"


class Named:
    """A tensor and the name it has in the program; in an f-string it is the name."""

    def __init__(self, name: str, tensor: torch.Tensor):
        self.name = name
        self.tensor = tensor
        self.shape = tuple(tensor.shape)
        self.ndim = tensor.ndim
        self.dtype = str(tensor.dtype).removeprefix("torch.")

    def __str__(self) -> str:
        return self.name


class Nothing(Exception):
    """No tensor suits what was to be drawn."""


class Draw:
    """Choices for the next line, from the tensors that exist."""

    def __init__(self, rng: random.Random, tensors: dict[str, torch.Tensor]):
        self.rng = rng
        self.all = [Named(name, tensor) for name, tensor in tensors.items()]
        self.choice = rng.choice
        self.int = rng.randint

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def tensor(self, dims: int = 0, floating: bool = False, keep: Callable = lambda x: True) -> Named:
        suits = [x for x in self.all if x.ndim >= dims and keep(x)]
        if floating and self.chance(0.97):
            suits = [x for x in suits if x.dtype.startswith("float")]
        if not suits:
            raise Nothing
        # The newest tensors more often, so that programs become deep.
        return self.choice(suits[-6:] if self.chance(0.5) else suits)

    def like(self, x: Named, exact: bool = False) -> Named:
        """A tensor that broadcasts with another, as a rule."""
        if self.chance(0.03):
            return self.tensor()
        fits = (lambda y: y.shape == x.shape) if exact else (lambda y: broadcasts(x.shape, y.shape))
        return self.tensor(keep=fits)

    def other(self, x: Named) -> Any:
        """The second operand of arithmetic: a tensor or a number."""
        return self.like(x) if self.chance(0.65) else self.number()

    def source_for(self, x: Named) -> Any:
        """What can be written into a tensor: something that broadcasts to it, of a dtype that fits."""
        if self.chance(0.35):
            return self.number()
        rank = ["bool", "int64", "float32", "float64"].index
        wild = self.chance(0.1)
        return self.tensor(
            keep=lambda y: (
                broadcasts_to(y.shape, x.shape)
                and (wild or rank(y.dtype) <= rank(x.dtype) or (rank(x.dtype) >= 2 and rank(y.dtype) >= 2))
            )
        )

    def number(self) -> Any:
        return self.choice([0, 1, 2, -1, 3, 0.5, -1.5, 2.0, 0.25, True])

    def dim(self, x: Named) -> int:
        if self.chance(0.01):
            return x.ndim + 1
        return self.int(-max(x.ndim, 1), max(x.ndim, 1) - 1)

    def extent(self, x: Named, dim: int) -> int:
        return x.shape[dim] if -x.ndim <= dim < x.ndim else 1

    def slice(self, n: int) -> str:
        start = self.choice(["", "", str(self.int(-n - 1, n + 1))])
        stop = self.choice(["", "", str(self.int(-n - 1, n + 1))])
        step = self.choice(["", "", "", ":2", ":3"])
        return f"{start}:{stop}{step}"

    def index(self, x: Named, arrays: bool = False) -> str:
        """What stands between the brackets."""
        items: list[str] = []
        for n in x.shape[: self.int(1, max(x.ndim, 1))]:
            pick = self.rng.random()
            if pick < 0.4 and n:
                items.append(str(self.int(-n, n - 1)))
            elif arrays and pick < 0.6 and n:
                items.append(f"T.tensor({[self.int(-n, n - 1) for _ in range(self.choice([1, 2, 2, 3]))]})")
            else:
                items.append(self.slice(n))
        if self.chance(0.15):
            items.insert(self.int(0, len(items)), "None")
        if self.chance(0.15):
            items.append("...")
        if self.chance(0.01):
            items.append("99")
        return ", ".join(items) if x.ndim or "None" in items else "..."

    def permutation(self, x: Named) -> list[int]:
        return self.rng.sample(range(x.ndim), x.ndim)

    def integers(self, shape: tuple[int, ...], bound: int) -> str:
        """An index tensor with entries below a bound."""
        count = int(np.prod(shape))
        values = [self.int(0, bound - 1) for _ in range(count)]
        return f"T.tensor({values}, dtype=T.int64).reshape({shape})"

    def mask(self, shape: tuple[int, ...]) -> str:
        values = [self.chance(0.5) for _ in range(int(np.prod(shape)))]
        return f"T.tensor({values}, dtype=T.bool).reshape({shape})"

    def reshaped(self, x: Named) -> tuple[int, ...]:
        """Another shape for the same number of elements."""
        count = x.tensor.numel()
        options = [(count,), (-1,), (1, count), (count, 1), x.shape + (1,)]
        options += [(k, count // k) for k in (2, 3, 4) if count and count % k == 0]
        options += [(2, -1, 2)] if count and count % 4 == 0 else []
        options += [x.shape[1:] + x.shape[:1], x.shape[:-2] + (-1,)] if count else []
        if count == 0 and self.chance(0.9):
            options = [(0,), (0, 2), (3, 0), x.shape]
        return self.choice(options) if self.chance(0.97) else (7, 2)


def broadcasts(a: tuple, b: tuple) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b)))


def broadcasts_to(a: tuple, b: tuple) -> bool:
    return len(a) <= len(b) and all(m in (n, 1) for m, n in zip(reversed(a), reversed(b)))
