"""Reading one batch of a dataset, in the main process or in a worker.

An index comes in (or a list of them, for a batch), what `collate_fn` makes of the samples goes out.
Read next: utils/data/transport.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class _DatasetKind:
    """How a dataset is read: by index, or as a stream."""

    Map = 0
    Iterable = 1


@dataclass(frozen=True)
class Recipe:
    """Everything a process must know to read batches of a dataset."""

    kind: int
    dataset: Any
    in_batches: bool
    collate_fn: Callable
    drop_last: bool

    def fetcher(self) -> Callable[[Any], Any]:
        """A function from an index to a batch; that of a stream starts at the stream's beginning."""
        if self.kind == _DatasetKind.Iterable:
            return stream_fetcher(self)
        return self.read_batch if self.in_batches else self.read_one

    def read_batch(self, indices: list) -> Any:
        many = getattr(self.dataset, "__getitems__", None)
        if many:
            return self.collate_fn(many(indices))
        dataset = self.dataset
        return self.collate_fn([dataset[index] for index in indices])

    def read_one(self, index: Any) -> Any:
        return self.collate_fn(self.dataset[index])


def stream_fetcher(recipe: Recipe) -> Callable[[Any], Any]:
    """Reads a stream on; raises StopIteration when it has ended."""
    stream = iter(recipe.dataset)
    ended = False

    def read_one(index: None) -> Any:
        return recipe.collate_fn(next(stream))

    def read_batch(places: list) -> Any:
        nonlocal ended
        if ended:
            raise StopIteration
        samples = []
        for _ in places:
            try:
                samples.append(next(stream))
            except StopIteration:
                ended = True
                break
        if not samples or (recipe.drop_last and len(samples) < len(places)):
            raise StopIteration
        return recipe.collate_fn(samples)

    return read_batch if recipe.in_batches else read_one
