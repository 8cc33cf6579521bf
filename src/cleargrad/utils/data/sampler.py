"""Samplers: in which order, and in which batches, the samples of a dataset are read.

For a seed they give PyTorch's indices: they draw the same numbers, and as late as PyTorch does, because the
next user of the generator sees how many were drawn. Read next: utils/data/distributed.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

from cleargrad.core.dtype import float64, int64
from cleargrad.errors import error
from cleargrad.ops.creation import as_tensor, empty
from cleargrad.ops.random_tensors import multinomial, randint, randperm
from cleargrad.random import Generator

T_co = TypeVar("T_co", covariant=True)


def draw_seed(generator: Generator | None = None) -> int:
    """A seed for another generator: one number of 63 bits."""
    return empty((), dtype=int64).random_(generator=generator).item()


class Sampler(Generic[T_co]):
    """An order: subclasses write `__iter__`, which gives indices or lists of them, and usually `__len__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise error(NotImplementedError, type(self).__name__, "a sampler must implement __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, and so on."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A new shuffle at every pass or, with `replacement`, independent draws."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            rule = f"replacement should be a boolean value, but got replacement={replacement}"
            raise error(TypeError, "RandomSampler", rule)
        check_positive("RandomSampler", "num_samples", self.num_samples, isinstance(self.num_samples, int))

    @property
    def num_samples(self) -> int:
        """As many as were asked for; otherwise as many as the dataset has now."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(draw_seed())
        count = len(self.data_source)
        if self.replacement:
            yield from self._with_replacement(count, generator)
            return
        for _ in range(self.num_samples // count):
            yield from randperm(count, generator=generator).tolist()
        # PyTorch shuffles once more even if none of it is needed, and so does every seeded program.
        yield from randperm(count, generator=generator).tolist()[: self.num_samples % count]

    def _with_replacement(self, count: int, generator: Generator) -> Iterator[int]:
        for _ in range(self.num_samples // 32):
            yield from randint(high=count, size=(32,), dtype=int64, generator=generator).tolist()
        rest = self.num_samples % 32
        yield from randint(high=count, size=(rest,), dtype=int64, generator=generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """A new shuffle of given indices at every pass."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Index i is drawn with a probability proportional to `weights[i]`."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        check_positive("WeightedRandomSampler", "num_samples", num_samples, is_integer(num_samples))
        if not isinstance(replacement, bool):
            rule = f"replacement should be a boolean value, but got replacement={replacement}"
            raise error(ValueError, "WeightedRandomSampler", rule)
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            shape = tuple(self.weights.shape)
            rule = f"weights should be a 1d sequence but given weights have shape {shape}"
            raise error(ValueError, "WeightedRandomSampler", rule)
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler, `batch_size` at a time."""

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        check_positive("BatchSampler", "batch_size", batch_size, is_integer(batch_size))
        if not isinstance(drop_last, bool):
            rule = f"drop_last should be a boolean value, but got drop_last={drop_last}"
            raise error(ValueError, "BatchSampler", rule)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        least = self.batch_size if self.drop_last else 1
        while len(batch := list(islice(indices, self.batch_size))) >= least:
            yield batch

    def __len__(self) -> int:
        total = len(self.sampler)  # type: ignore[arg-type]
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_positive(op: str, name: str, value: Any, is_count: bool) -> None:
    if not is_count or value <= 0:
        rule = f"{name} should be a positive integer value, but got {name}={value}"
        raise error(ValueError, op, rule)
