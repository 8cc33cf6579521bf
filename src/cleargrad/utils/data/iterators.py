"""One pass through a DataLoader: in this process, or in worker processes.

Workers are asked in turn and answer in turn, so batches keep their order without being numbered. What is
asked next is drawn from the sampler each time a batch arrives. Read next: utils/data/dataloader.py.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from itertools import cycle
from multiprocessing.connection import wait
from pickle import PicklingError
from typing import Any, NoReturn

from cleargrad import threads
from cleargrad.core.mode import settle
from cleargrad.errors import error
from cleargrad.utils.data.fetch import Recipe, _DatasetKind
from cleargrad.utils.data.pinning import pin_memory, pins
from cleargrad.utils.data.position import Sources, same_states, skip_indices, too_short
from cleargrad.utils.data.sampler import draw_seed
from cleargrad.utils.data.transport import WINDOW, Link, line, pack, unpack
from cleargrad.utils.data.worker import BATCH, DESCRIBE, ENDED, FAILED, FETCH, RESTART, RESTARTED, work

SECONDS_TO_FINISH = 5.0


class _BaseDataLoaderIter:
    """What both kinds of pass share: the sampler's indices, and the count of batches given out."""

    def __init__(self, loader: Any) -> None:
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._recipe = Recipe(
            loader._dataset_kind,
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
        )
        self._pins = pins(loader)
        self._seed_follows = not self._num_workers
        if loader._resumed is None or loader._resumed["seed"] is None:
            # First the sampler, then the seed: a sampler that draws at once draws first, as in PyTorch.
            self._start(loader)
            self._base_seed = draw_seed(loader.generator)
        else:
            self._base_seed = loader._resumed["seed"]
            if not self._num_workers:  # with workers, _reset begins the pass
                self._start(loader)

    def _start(self, loader: Any) -> None:
        sources = Sources(loader)
        again = loader._resumed if loader._resumed and loader._resumed["began"] else None
        if again:
            sources.put(again["began"])
            self._seed_follows = again["seed_follows"]
        self._began = again["began"] if again else sources.draw()
        self._sampler_iter = iter(self._index_sampler)
        if again and self._seed_follows:
            draw_seed(loader.generator)
        self._announced = loader._IterableDataset_len_called
        self._num_yielded = 0

    def _position(self) -> dict[str, Any]:
        """What utils/data/position.py needs to get here again."""
        return {
            "batches": self._num_yielded,
            "began": self._began,
            "seed": self._base_seed,
            "seed_follows": self._seed_follows,
        }

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        settle("the next batch is asked for")
        data = self._next_data()
        if self._pins:
            data = pin_memory(data)
        self._num_yielded += 1
        if self._announced is not None and self._num_yielded > self._announced:
            self._warn_about_length()
        return data

    def _next_data(self) -> Any:
        raise NotImplementedError

    def _read_again(self, count: int) -> None:
        """Gets to a position by reading everything before it."""
        for done in range(count):
            try:
                self._next_data()
            except StopIteration:
                raise too_short(count, done) from None

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> NoReturn:
        raise error(NotImplementedError, "pickle", f"{type(self).__name__} cannot be pickled")

    def _warn_about_length(self) -> None:
        words = (
            f"Length of IterableDataset {self._recipe.dataset} was reported to be {self._announced}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers:
            words += "Every worker reads the whole stream, unless its __iter__ asks get_worker_info()."
        warnings.warn(words, stacklevel=3)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Batches are read here, each when it is asked for."""

    def __init__(self, loader: Any) -> None:
        if loader.timeout != 0:
            raise error(
                AssertionError, "DataLoader", "a timeout needs num_workers > 0", timeout=loader.timeout
            )
        super().__init__(loader)
        self._fetch = self._recipe.fetcher()
        if loader._resumed is not None:
            self._go_to(loader._resumed["batches"])

    def _go_to(self, count: int) -> None:
        if self._recipe.kind == _DatasetKind.Iterable:
            self._read_again(count)
        else:
            skip_indices(self._sampler_iter, count)
        self._num_yielded = count

    def _next_data(self) -> Any:
        return self._fetch(next(self._sampler_iter))


class _PersistentPass:
    """One pass of workers that outlive it: when nobody holds it any more, the pass is over."""

    def __init__(self, iterator: _BaseDataLoaderIter) -> None:
        self._iterator = iterator

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)

    def __len__(self) -> int:
        return len(self._iterator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


class Worker:
    """The main process's side of a worker."""

    def __init__(self, process: Any, link: Link, slots: int) -> None:
        self.process = process
        self.link = link
        self.slots = slots
        self.has_more = True  # False when its stream has ended
        self.asked: deque = deque()  # requests not sent yet
        self.unanswered = 0
        self.early: deque = deque()  # answers that came while something else was awaited

    def ask(self, index: Any) -> None:
        self.asked.append((FETCH, index))
        self._send()

    def take(self, timeout: float | None) -> list[bytearray]:
        """The answer to the oldest request, still packed."""
        answer = self.early.popleft() if self.early else self._receive(timeout)
        self._send()
        return answer

    def describe(self, timeout: float | None) -> tuple | None:
        """The states of its generators, as of all that it was asked for until now."""
        while self.unanswered:
            self.early.append(self._receive(timeout))
        self._talk(lambda: self.link.send(pack((DESCRIBE, None))))
        drawn = unpack(self._talk(lambda: self.link.receive(timeout)))[1]
        self._send()
        return drawn

    def restart(self, timeout: float | None) -> None:
        """Drops all requests, so that the next one begins a new pass."""
        self.asked.clear()
        self.early.clear()
        self._talk(lambda: self.link.send(pack((RESTART, None))))
        while unpack(self._talk(lambda: self.link.receive(timeout)))[0] != RESTARTED:
            pass
        self.unanswered = 0
        self.has_more = True

    def _receive(self, timeout: float | None) -> list[bytearray]:
        answer = self._talk(lambda: self.link.receive(timeout))
        self.unanswered -= 1
        return answer

    def _send(self) -> None:
        while self.asked and self.unanswered < self.slots:
            request = pack(self.asked.popleft())
            self._talk(lambda request=request: self.link.send(request))
            self.unanswered += 1

    def _talk(self, act: Any) -> Any:
        try:
            return act()
        except TimeoutError:
            raise
        except (EOFError, OSError):
            raise death_of(self.process) from None


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches are read ahead by worker processes."""

    def __init__(self, loader: Any) -> None:
        if loader.prefetch_factor <= 0:
            raise error(AssertionError, "DataLoader", "prefetch_factor must be greater than 0")
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor
        self._persistent_workers = loader.persistent_workers
        self._in_order = loader.in_order
        self._timeout = loader.timeout or None
        self._workers: list[Worker] = []
        # Not __del__: this also runs when Python exits, while processes can still be joined.
        self._shut_down = weakref.finalize(self, shut_down, self._workers, os.getpid())
        threads.controller()  # looked up here, so that forked workers need not
        for worker_id in range(self._num_workers):
            self._workers.append(self._hire(loader, worker_id))
        self._reset(loader, first_iter=True)

    def _hire(self, loader: Any, worker_id: int) -> Worker:
        context = loader.multiprocessing_context or multiprocessing
        slots = min(self._prefetch_factor, WINDOW)
        states = self._saved_states(loader, worker_id)
        here, there = line()
        job = (
            Link(there, slots),
            self._recipe,
            self._base_seed,
            loader.worker_init_fn,
            worker_id,
            self._num_workers,
            states,
        )
        process = context.Process(target=work, args=job, daemon=True)
        try:
            process.start()
        except Exception as failure:
            here.close()
            if isinstance(failure, (TypeError, AttributeError, PicklingError)):
                words = (
                    "Got pickle error when attempting to start a worker Process. The start methods 'spawn' "
                )
                words += "and 'forkserver' need a dataset and functions that can be pickled."
                warnings.warn(words, stacklevel=5)
            raise
        finally:
            # Only the worker may hold its end: then its death is the end of the line.
            there.close()
        return Worker(process, Link(here, slots), slots)

    def _saved_states(self, loader: Any, worker_id: int) -> dict[str, Any] | None:
        """The states with which a worker's generators began the pass that is resumed."""
        states = loader._resumed and loader._resumed["workers"]
        if not states:
            return None
        if len(states) != self._num_workers:
            rule = "the workers of the saved pass drew random numbers, so there must be equally many"
            raise error(ValueError, "load_state_dict", rule, saved=len(states), num_workers=self._num_workers)
        return states[worker_id]

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins a pass."""
        self._start(loader)
        self._turns: deque[Worker] = deque()  # workers that owe a batch, in the order of their batches
        self._order = cycle(self._workers)
        if not first_iter:
            for worker in self._workers:
                self._in_time(worker.restart)
        if loader._resumed is None:
            self._ask_ahead()
        else:
            self._go_to(loader._resumed)

    def _go_to(self, position: dict[str, Any]) -> None:
        """Workers read again only what their random numbers, or a stream, make them read again."""
        count = position["batches"]
        read_again = position["reread"] or self._recipe.kind == _DatasetKind.Iterable
        if not read_again:
            skip_indices(self._sampler_iter, count)
            for _ in range(count % self._num_workers):
                next(self._order)
        self._ask_ahead()
        if read_again:
            self._read_again(count)
        self._num_yielded = count

    def _position(self) -> dict[str, Any]:
        if not self._in_order:
            rule = "with in_order=False it is not known which batches have been given out"
            raise error(RuntimeError, "state_dict", rule, fix="leave out in_order=False")
        position = super()._position()
        if not self._shut_down.alive:  # the pass is over, but someone still holds it
            return position
        drawn = self._drawn()
        began = [began for began, _ in drawn]
        changed = any(one and not same_states(one, now) for one, now in drawn)
        return position | {"workers": began if any(began) else None, "reread": changed}

    def _position_between(self) -> dict[str, Any]:
        """The next pass will be read by the same workers, from where they are now."""
        states = [now for _, now in self._drawn()]
        return {"seed": self._base_seed, "workers": states if any(states) else None}

    def _drawn(self) -> list[tuple]:
        return [self._in_time(worker.describe) or (None, None) for worker in self._workers]

    def _ask_ahead(self) -> None:
        """Draws indices from the sampler until every worker has its share of requests."""
        busy = sum(worker.has_more for worker in self._workers)
        for _ in range(self._prefetch_factor * busy - len(self._turns)):
            try:
                index = next(self._sampler_iter)
            except StopIteration:
                return
            worker = self._next_worker()
            worker.ask(index)
            self._turns.append(worker)

    def _next_worker(self) -> Worker:
        """Whoever is next in the round; out of order, whoever is next and has not enough to do."""
        for worker in self._order:
            owed = 0 if self._in_order else self._turns.count(worker)
            if worker.has_more and owed < self._prefetch_factor:
                return worker
        raise AssertionError  # `cycle` does not end

    def _next_data(self) -> Any:
        while self._turns:
            worker = self._turns[0] if self._in_order else self._first_ready()
            answer = self._in_time(worker.take)
            self._turns.remove(worker)
            kind, data = unpack(answer)
            if kind == ENDED:
                worker.has_more = False
            self._ask_ahead()
            if kind == FAILED:
                data.raise_again()
            if kind == BATCH:
                return data
        if not self._persistent_workers:
            self._shut_down()
        raise StopIteration

    def _first_ready(self) -> Worker:
        """Out of order: a worker whose answer is there; if none comes in time, the one that owes longest."""
        ready = wait([worker.link for worker in self._workers], self._timeout)  # type: ignore[arg-type]
        return next((worker for worker in self._turns if worker.link in ready), self._turns[0])

    def _in_time(self, act: Any) -> Any:
        try:
            return act(self._timeout)
        except TimeoutError:
            rule = f"DataLoader timed out after {self._timeout} seconds"
            raise error(RuntimeError, "DataLoader", rule, fix="raise timeout, or use more workers") from None


def shut_down(workers: list[Worker], owner: int) -> None:
    """Ends worker processes: politely at first, by force if one does not listen."""
    if os.getpid() != owner:
        return  # a forked process has copies of these objects; the workers are not its own
    for worker in workers:
        worker.link.hang_up()
    deadline = time.monotonic() + SECONDS_TO_FINISH
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
    for worker in workers:
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(1.0)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def death_of(process: Any) -> Exception:
    """The error for a worker that ended by itself."""
    process.join(1.0)
    code = process.exitcode
    rule = f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly"
    facts: dict[str, Any] = {"exit code": code}
    fix = None
    if code is not None and code < 0:
        facts = {"killed by": signal.Signals(-code).name}
        if -code == signal.SIGKILL:
            fix = "if memory ran out, lower num_workers, prefetch_factor or the batch size"
    return error(RuntimeError, "DataLoader", rule, fix=fix, **facts)
