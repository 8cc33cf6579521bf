"""A worker process: reads batches that the main process asks for, until the line is cut.

Every request gets exactly one answer: a batch, the failure to make one, or the news that the stream ended.
Read next: utils/data/iterators.py.
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from cleargrad.random import manual_seed
from cleargrad.utils.data.fetch import Recipe, _DatasetKind
from cleargrad.utils.data.transport import Link, pack, unpack

# What the main process asks for, and what a worker answers.
FETCH, RESTART = "fetch", "restart"
BATCH, FAILED, ENDED, RESTARTED = "batch", "failed", "ended", "restarted"

SECONDS_BETWEEN_LOOKS = 2.0


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker process knows about itself."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process, which worker this is; None in the main process."""
    return _worker_info


class Failure:
    """An exception on its way to another process: its type, and its traceback as text."""

    def __init__(self, exception: Exception, where: str) -> None:
        self.kind = type(exception)
        trace = "".join(traceback.format_exception(exception))
        self.text = f"Caught {self.kind.__name__} {where}.\nOriginal {trace}"

    def exception(self) -> Exception:
        """An exception of the same type, or a RuntimeError if that type wants other arguments."""
        text = Text(self.text) if self.kind is KeyError else self.text
        try:
            return self.kind(text)
        except Exception:
            return RuntimeError(text)

    def raise_again(self) -> NoReturn:
        # No name here holds the exception: with its traceback that would be a cycle, which would keep the
        # pass and its workers alive until the next garbage collection.
        raise self.exception() from None


class Text(str):
    """A text that a KeyError prints as it is, not quoted."""

    def __repr__(self) -> str:
        return str(self)


def work(
    link: Link,
    recipe: Recipe,
    base_seed: int,
    init_fn: Callable[[int], Any] | None,
    worker_id: int,
    num_workers: int,
) -> None:
    """The life of a worker process."""
    global _worker_info
    try:
        seed_all(base_seed, worker_id)
        _worker_info = WorkerInfo(worker_id, num_workers, base_seed + worker_id, recipe.dataset)
        serve(link, recipe, init_fn, worker_id)
    except (KeyboardInterrupt, EOFError, ConnectionError):
        pass  # The main process is interrupted as well, or has cut the line.


def seed_all(base_seed: int, worker_id: int) -> None:
    """Gives every source of random numbers a seed of this worker's own, the ones PyTorch gives."""
    random.seed(base_seed + worker_id)
    manual_seed(base_seed + worker_id)
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(entropy).generate_state(4))


def serve(link: Link, recipe: Recipe, init_fn: Callable[[int], Any] | None, worker_id: int) -> None:
    """Answers requests until the main process hangs up."""
    where = f"in DataLoader worker process {worker_id}"
    parent = os.getppid()
    fetch: Callable[[Any], Any] | None = None
    while True:
        try:
            request, index = unpack(link.receive(SECONDS_BETWEEN_LOOKS))
        except TimeoutError:
            if os.getppid() != parent:
                return
            continue
        if request == RESTART:
            fetch = None
            link.send(pack((RESTARTED, None)))
            continue
        try:
            if init_fn is not None:
                # Called for the first request, so that what it raises has someone to go to.
                init_fn(worker_id)
                init_fn = None
            if fetch is None:
                fetch = recipe.fetcher()
            answer = pack((BATCH, fetch(index)))
        except Exception as exception:
            answer = answer_to(exception, recipe, where)
        link.send(answer)


def answer_to(exception: Exception, recipe: Recipe, where: str) -> list[memoryview]:
    if isinstance(exception, StopIteration) and recipe.kind == _DatasetKind.Iterable:
        return pack((ENDED, None))
    failure = Failure(exception, where)
    try:
        return pack((FAILED, failure))
    except Exception:  # the type cannot be pickled: a class inside a function, for example
        failure.kind = RuntimeError
        return pack((FAILED, failure))
