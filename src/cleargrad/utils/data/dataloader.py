"""DataLoader: a dataset, an order, and a way to make batches, put together.

Read next: utils/data/iterators.py for what happens when it is iterated.
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from cleargrad.errors import error
from cleargrad.random import Generator
from cleargrad.utils.data.collate import default_collate, default_convert
from cleargrad.utils.data.dataset import Dataset, IterableDataset
from cleargrad.utils.data.fetch import _DatasetKind
from cleargrad.utils.data.iterators import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _PersistentPass,
    _SingleProcessDataLoaderIter,
)
from cleargrad.utils.data.position import checked_position, position_of, replaying
from cleargrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from cleargrad.utils.data.worker import get_worker_info as get_worker_info

T_co = TypeVar("T_co", covariant=True)

# Samplers hold references to these, so a change after __init__ would only half work.
FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _InfiniteConstantSampler(Sampler):
    """The sampler of a stream: there are no indices, and it ends when the stream does."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Batches of a dataset, read here or by `num_workers` processes that work ahead."""

    _initialized = False

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        is_stream = isinstance(dataset, IterableDataset)
        if is_stream:
            check_stream_options(shuffle, sampler, batch_sampler)
        check_batching(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._dataset_kind = _DatasetKind.Iterable if is_stream else _DatasetKind.Map

        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)

        self._iterator: _BaseDataLoaderIter | None = None
        self._pass: weakref.ref | None = None  # the newest pass; who iterates keeps it alive
        self._loaded: dict[str, Any] | None = None  # a position that the next pass goes to
        self._resumed: dict[str, Any] | None = None  # that position while the pass is made
        self._IterableDataset_len_called: int | None = None
        self.check_worker_number_rationality()
        self._initialized = True

    def _default_sampler(self, shuffle: bool) -> Sampler:
        if self._dataset_kind == _DatasetKind.Iterable:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]
        return SequentialSampler(self.dataset)  # type: ignore[arg-type]

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """How workers are started; None means Python's default."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._multiprocessing_context = None if context is None else context_of(context, self.num_workers)

    def __setattr__(self, attr: str, val: Any) -> None:
        if self._initialized and attr in FIXED:
            name = type(self).__name__
            rule = f"{attr} attribute should not be set after {name} is initialized"
            raise error(ValueError, "DataLoader", rule, fix=f"make another {name}")
        super().__setattr__(attr, val)

    def __iter__(self) -> _BaseDataLoaderIter | _PersistentPass:
        iterator: Any = self._begin_pass()
        if self.persistent_workers:
            iterator = _PersistentPass(iterator)
        self._pass = weakref.ref(iterator)
        return iterator

    def _begin_pass(self) -> _BaseDataLoaderIter:
        if self._loaded is not None:
            return self._resume()
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)  # type: ignore[attr-defined]
        return self._iterator

    def _resume(self) -> _BaseDataLoaderIter:
        self._resumed, self._loaded, self._iterator = self._loaded, None, None
        try:
            with replaying(self, self._resumed):  # type: ignore[arg-type]
                iterator = self._get_iterator()
        finally:
            self._resumed = None
        self._iterator = iterator if self.persistent_workers else None
        return iterator

    def _get_iterator(self) -> _BaseDataLoaderIter:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def state_dict(self) -> dict[str, Any]:
        """Where the current pass is: how many batches it has given out, and how it began.

        Save it with the model, the optimizer and `get_rng_state()`: then a run that is resumed reads the batches,
        and makes the losses, that the run would have made.
        """
        if self._loaded is not None:
            return self._loaded
        current = self._pass and self._pass()
        return position_of(self, current)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Makes the next pass go on where another was, in this process or an earlier one."""
        self._loaded = checked_position(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_pass": None}

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        """The number of batches; of a stream, as the length it claims suggests."""
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        # Remembered, so that a stream which turns out longer is reported.
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warns if there would be more workers than processors."""
        if not self.num_workers:
            return
        affinity = getattr(os, "sched_getaffinity", None)
        processors = len(affinity(0)) if affinity else os.cpu_count()
        if processors is None or self.num_workers > processors:
            words = (
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested "
                f"max number of worker in current system is {processors}, which is smaller than what this "
                "DataLoader is going to create. Please be aware that excessive worker creation might get "
                "DataLoader running slow or even freeze, lower the worker number to avoid potential "
                "slowness/freeze if necessary."
            )
            warnings.warn(words, stacklevel=3)


def check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        rule = "num_workers option should be non-negative"
        raise error(ValueError, "DataLoader", rule, fix="use num_workers=0 to disable multiprocessing")
    if timeout < 0:
        raise error(ValueError, "DataLoader", "timeout option should be non-negative", timeout=timeout)
    if num_workers == 0 and prefetch_factor is not None:
        rule = "prefetch_factor option could only be specified in multiprocessing"
        fix = "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None"
        raise error(ValueError, "DataLoader", rule, fix=fix)
    if prefetch_factor is not None and prefetch_factor < 0:
        raise error(ValueError, "DataLoader", "prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise error(ValueError, "DataLoader", "persistent_workers option needs num_workers > 0")


def check_stream_options(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """A stream decides itself in which order its samples come."""
    options = {
        "shuffle": shuffle if shuffle not in {False, None} else None,
        "sampler": sampler,
        "batch_sampler": batch_sampler,
    }
    for name, value in options.items():
        if value is not None:
            rule = (
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )
            raise error(ValueError, "DataLoader", rule, fix="order the samples in the dataset's __iter__")


def check_batching(batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: Any) -> None:
    if sampler is not None and shuffle:
        raise error(ValueError, "DataLoader", "sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            rule = (
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
            raise error(ValueError, "DataLoader", rule)
    elif batch_size is None and drop_last:
        rule = "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        raise error(ValueError, "DataLoader", rule)


def context_of(context: Any, num_workers: int) -> BaseContext:
    """A way to start processes, by name or as multiprocessing's object."""
    if num_workers == 0:
        rule = "multiprocessing_context can only be used with multi-process loading (num_workers > 0)"
        raise error(ValueError, "DataLoader", rule, num_workers=num_workers)
    if isinstance(context, str):
        known = multiprocessing.get_all_start_methods()
        if context not in known:
            rule = f"multiprocessing_context option should specify a valid start method in {known}"
            raise error(ValueError, "DataLoader", rule, got=repr(context))
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        rule = "multiprocessing_context option should be a valid context object or the name of a start method"
        raise error(TypeError, "DataLoader", rule, got=repr(context))
    return context
