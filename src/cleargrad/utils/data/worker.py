"""A worker process: reads batches that the main process asks for, until the line is cut.

Every request gets exactly one answer: a batch, the failure to make one, or the news that the stream ended.
Read next: utils/data/iterators.py.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from cleargrad.random import manual_seed
from cleargrad.threads import set_num_threads
from cleargrad.utils.data.fetch import Recipe, _DatasetKind
from cleargrad.utils.data.position import draw_worker_states, put_worker_states, same_states
from cleargrad.utils.data.transport import Link, pack, unpack

# What the main process asks for, and what a worker answers.
FETCH, RESTART, DESCRIBE = "fetch", "restart", "describe"
BATCH, FAILED, ENDED, RESTARTED, DRAWN = "batch", "failed", "ended", "restarted", "drawn"


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
    states: dict[str, Any] | None = None,
) -> None:
    """The life of a worker process."""
    global _worker_info
    try:
        set_num_threads(1)  # the processes are the parallelism
        seed_all(base_seed, worker_id)
        _worker_info = WorkerInfo(worker_id, num_workers, base_seed + worker_id, recipe.dataset)
        serve(link, recipe, Numbers(init_fn, worker_id, states), worker_id)
    except (KeyboardInterrupt, EOFError, ConnectionError):
        pass  # The main process is interrupted as well, or has cut the line.


def seed_all(base_seed: int, worker_id: int) -> None:
    """Gives every source of random numbers a seed of this worker's own, the ones PyTorch gives."""
    random.seed(base_seed + worker_id)
    manual_seed(base_seed + worker_id)
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(entropy).generate_state(4))


class Numbers:
    """The random numbers of a worker: where they began, where a pass began, and where they are now."""

    def __init__(
        self, init_fn: Callable[[int], Any] | None, worker_id: int, states: dict[str, Any] | None
    ) -> None:
        self.init_fn = init_fn
        self.worker_id = worker_id
        self.saved = states
        self.first: dict[str, Any] | None = None
        self.began: dict[str, Any] | None = None

    def begin(self) -> None:
        """Calls the user's function, which may seed generators; a saved state comes behind that."""
        if self.first is not None:
            return
        if self.init_fn is not None:
            self.init_fn(self.worker_id)
        self.first = self.began = draw_worker_states()
        if self.saved is not None:
            put_worker_states(self.saved)
            self.began = self.saved

    def restart(self) -> None:
        if self.first is not None:
            self.began = draw_worker_states()

    def describe(self) -> tuple | None:
        """States when the pass began and now; None if nothing was ever drawn."""
        now = draw_worker_states()
        if self.first is None or same_states(self.first, now):
            return None
        return self.began, now


def serve(link: Link, recipe: Recipe, numbers: Numbers, worker_id: int) -> None:
    """Answers requests until the main process hangs up."""
    where = f"in DataLoader worker process {worker_id}"
    fetch: Callable[[Any], Any] | None = None
    while True:
        request, index = unpack(link.receive())
        if request == RESTART:
            fetch = None
            numbers.restart()
            link.send(pack((RESTARTED, None)))
            continue
        if request == DESCRIBE:
            link.send(pack((DRAWN, numbers.describe())))
            continue
        try:
            numbers.begin()  # here, so that what the user's function raises has someone to go to
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
