"""Datasets: samples by index or as a stream, and ways to join and divide them.

Read next: utils/data/sampler.py.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

# typing's Iterable, not collections.abc's: only that one may stand beside a Generic base.
from typing import Any, Generic, Iterable, TypeVar  # noqa: UP035

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.random_tensors import randperm
from cleargrad.random import Generator, default_generator

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by key: subclasses write `__getitem__`, most `__len__`, some `__getitems__` for a batch."""

    def __getitem__(self, index: Any) -> T_co:
        raise error(
            NotImplementedError,
            "Dataset",
            "Subclasses of Dataset should implement __getitem__.",
            subclass=type(self).__name__,
        )

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples as a stream: subclasses write `__iter__`, which every worker process calls on its own copy."""

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The rows of several tensors: sample i is the i-th row of each."""

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            sizes = [tensor.size(0) for tensor in tensors]
            raise error(AssertionError, "TensorDataset", "Size mismatch between tensors", sizes=sizes)
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Several datasets side by side: sample i is a tuple of theirs or, with keywords, a dict."""

    datasets: tuple | dict

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args and kwargs:
            rule = "datasets are given either by position, for tuples, or by keyword, for dicts; not both"
            raise error(ValueError, "StackDataset", rule)
        if not args and not kwargs:
            raise error(ValueError, "StackDataset", "At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in (args or kwargs.values())]  # type: ignore[arg-type]
        if any(length != lengths[0] for length in lengths):
            raise error(ValueError, "StackDataset", "Size mismatch between datasets", lengths=lengths)
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> tuple | dict:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list) -> list:
        if isinstance(self.datasets, dict):
            columns = [samples_at(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*(samples_at(dataset, indices) for dataset in self.datasets)))

    def __len__(self) -> int:
        return self._length


def samples_at(dataset: Any, indices: list) -> list:
    """The samples at several indices, in one call where the dataset has one for that."""
    many = getattr(dataset, "__getitems__", None)
    if not callable(many):
        return [dataset[index] for index in indices]
    samples = many(indices)
    if len(samples) != len(indices):
        rule = f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(samples)}"
        raise error(ValueError, "StackDataset", rule, dataset=type(dataset).__name__)
    return samples


class ConcatDataset(Dataset[T_co]):
    """Several datasets, one after the other."""

    @staticmethod
    def cumsum(sequence: Iterable) -> list[int]:
        return list(accumulate(len(dataset) for dataset in sequence))

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise error(AssertionError, "ConcatDataset", "datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            rule = "ConcatDataset does not support IterableDataset"
            raise error(AssertionError, "ConcatDataset", rule, fix="use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        if idx < 0:
            if -idx > len(self):
                rule = "absolute value of index should not exceed dataset length"
                raise error(ValueError, "ConcatDataset", rule, index=idx, length=len(self))
            idx += len(self)
        which = bisect_right(self.cumulative_sizes, idx)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][idx - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        words = "`cummulative_sizes` attribute is renamed to `cumulative_sizes`"
        warnings.warn(words, FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Several streams, one after the other."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator:
        for dataset in self.datasets:
            check_stream(dataset)
            yield from dataset  # type: ignore[misc]

    def __len__(self) -> int:
        total = 0
        for dataset in self.datasets:
            check_stream(dataset)
            total += len(dataset)  # type: ignore[arg-type]
        return total


def check_stream(dataset: Any) -> None:
    if not isinstance(dataset, IterableDataset):
        rule = "ChainDataset only supports IterableDataset"
        raise error(AssertionError, "ChainDataset", rule, got=type(dataset).__name__, fix="use ConcatDataset")


class Subset(Dataset[T_co]):
    """Some samples of a dataset, chosen by their indices there."""

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            rule = f"{kind.__name__} overrides __getitem__ but not __getitems__, which DataLoader calls"
            fix = "def __getitems__(self, indices): return [self[index] for index in indices]"
            raise error(NotImplementedError, "Subset", rule, fix=fix)

    def __getitem__(self, idx: Any) -> T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        chosen = [self.indices[index] for index in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(chosen) if callable(many) else [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T_co],
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset[T_co]]:
    """A dataset divided at random; `lengths` are counts, or fractions that sum to 1."""
    size = len(dataset)  # type: ignore[arg-type]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        counts = counts_of(lengths, size)
    else:
        counts = lengths  # type: ignore[assignment]
    if sum(counts) != size:
        rule = "Sum of input lengths does not equal the length of the input dataset!"
        raise error(ValueError, "random_split", rule, lengths=list(lengths), dataset=size)
    order = randperm(size, generator=generator).tolist()
    return [Subset(dataset, order[stop - count : stop]) for stop, count in zip(accumulate(counts), counts)]


def counts_of(fractions: Sequence[float], size: int) -> list[int]:
    """Fractions of `size` rounded down; what is left goes to the first ones, one each."""
    for position, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            rule = f"Fraction at index {position} is not between 0 and 1"
            raise error(ValueError, "random_split", rule, fraction=fraction)
    counts = [math.floor(size * fraction) for fraction in fractions]
    for extra in range(size - sum(counts)):
        counts[extra % len(counts)] += 1
    for position, count in enumerate(counts):
        if count == 0:
            words = f"Length of split at index {position} is 0. This might result in an empty dataset."
            warnings.warn(words, stacklevel=3)
    return counts
