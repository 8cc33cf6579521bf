"""DataLoader.state_dict: a pass that is resumed gives the batches that were still to come."""

from __future__ import annotations

import io
import pickle
import random

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    WeightedRandomSampler,
    get_worker_info,
)

COUNT = 23


class Plain(Dataset):
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return index


class Noisy(Plain):
    """Draws from everything that there is, as augmentations do."""

    def __getitem__(self, index):
        return index, cg.rand(()), random.random(), np.random.rand()


class Numbered(Plain):
    def __getitem__(self, index):
        worker = get_worker_info()
        return index, worker.id if worker else -1


class Counting(Plain):
    """Knows how often it was read."""

    def __init__(self):
        self.reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return index


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        start, step = (worker.id, worker.num_workers) if worker else (0, 1)
        # In the main process the generator is the program's, which draws from it in between.
        return ((index, random.random() if worker else 0.0) for index in range(start, COUNT, step))


class ByNumPy(Sampler):
    """A sampler as programs write them."""

    def __iter__(self):
        return iter(np.random.permutation(COUNT).tolist())

    def __len__(self):
        return COUNT


class AtOnce(ByNumPy):
    def __iter__(self):
        return iter(cg.randperm(COUNT).tolist())


def generator():
    return cg.Generator().manual_seed(5)


LOADERS = {
    "in order": lambda **options: DataLoader(Plain(), 3, **options),
    "shuffled": lambda **options: DataLoader(Plain(), 3, shuffle=True, **options),
    "short batches dropped": lambda **options: DataLoader(Plain(), 3, True, drop_last=True, **options),
    "single samples": lambda **options: DataLoader(Plain(), None, True, **options),
    "own generator": lambda **options: DataLoader(Plain(), 3, True, generator=generator(), **options),
    "sampler's generator": lambda **options: DataLoader(
        Plain(), 3, sampler=RandomSampler(range(COUNT), True, 40, generator()), **options
    ),
    "weighted": lambda **options: DataLoader(
        Plain(), 3, sampler=WeightedRandomSampler(np.arange(1.0, COUNT + 1), COUNT), **options
    ),
    "NumPy": lambda **options: DataLoader(Plain(), 3, sampler=ByNumPy(), **options),
    "at once": lambda **options: DataLoader(Plain(), 3, sampler=AtOnce(), **options),
    "random samples": lambda **options: DataLoader(Noisy(), 3, shuffle=True, **options),
    "worker's number": lambda **options: DataLoader(Numbered(), 3, **options),
    "stream": lambda **options: DataLoader(Stream(), 3, **options),
}


def seed_workers(worker_id):
    np.random.seed(worker_id)


WORKERS = {
    "no workers": {},
    "workers": {"num_workers": 2},
    "persistent workers": {"num_workers": 2, "persistent_workers": True},
    "workers with a function": {"num_workers": 2, "prefetch_factor": 3, "worker_init_fn": seed_workers},
}


def all_states():
    return cg.get_rng_state(), random.getstate(), np.random.get_state()


def set_states(states):
    cg.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])


def seed_all(seed):
    cg.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def through_a_file(thing):
    """As a checkpoint would hold it; only plain data may be loaded."""
    file = io.BytesIO()
    cg.save(thing, file)
    file.seek(0)
    return cg.load(file, weights_only=True)


def read(loader, passes, stop=None):
    """What a run sees: batches, and random numbers of its own in between. Stops inside the last pass."""
    seen = []
    for number in range(passes):
        for position, batch in enumerate(loader, 1):
            seen.append((repr(batch), cg.rand(()).item(), random.random(), np.random.rand()))
            if number == passes - 1 and position == stop:
                return seen, loader.state_dict()
    return seen, loader.state_dict()


def resumed(make, state, states):
    """Goes on in a process that knows nothing."""
    seed_all(99)
    loader = make()
    loader.load_state_dict(through_a_file(state))
    set_states(states)
    return read(loader, 2)[0]


CASES = [
    *((kind, "no workers") for kind in LOADERS),
    *(
        (kind, "workers")
        for kind in ("shuffled", "single samples", "own generator", "NumPy", "worker's number")
    ),
    *((kind, "persistent workers") for kind in ("shuffled", "own generator", "at once")),
    *(
        (kind, workers)
        for kind in ("random samples", "stream")
        for workers in WORKERS
        if workers != "no workers"
    ),
]


@pytest.mark.parametrize(("kind", "workers"), CASES)
def test_resumed_pass_is_the_same(kind, workers):
    def make():
        return LOADERS[kind](**WORKERS[workers])

    seed_all(1)
    whole = read(make(), 3)[0]
    for stop in (5, None):  # inside of the second pass, and at its end
        seed_all(1)
        loader = make()
        before, state = read(loader, 2, stop)
        states = all_states()
        del loader
        rest = resumed(make, state, states)
        # The second of the two passes read in `resumed` begins a new one; after a finished pass both do.
        assert rest[: len(whole) - len(before)] == whole[len(before) :]


@pytest.mark.parametrize("workers", ["no workers", "workers"])
@pytest.mark.parametrize("stop", [1, 7, 8])
def test_any_place(workers, stop):
    def make():
        return LOADERS["shuffled"](**WORKERS[workers])

    seed_all(1)
    whole = read(make(), 2)[0]
    seed_all(1)
    before, state = read(make(), 1, stop)
    states = all_states()
    assert resumed(make, state, states) == whole[len(before) :]


def test_state_in_the_middle_changes_nothing():
    """Asking workers for their state does not change what they read."""
    for options in WORKERS.values():
        seen = []
        for asking in (False, True):
            seed_all(1)
            loader = LOADERS["random samples"](**options)
            seen.append([])
            for batch in loader:
                seen[-1].append(repr(batch))
                if asking:
                    loader.state_dict()
        assert seen[0] == seen[1]


def test_resumed_twice():
    """A position that was reached by resuming can be saved again."""
    for options in (WORKERS["no workers"], WORKERS["persistent workers"]):
        make = lambda options=options: LOADERS["random samples"](**options)  # noqa: E731
        seed_all(1)
        whole = read(make(), 2)[0]
        seed_all(1)
        before, state = read(make(), 2, 2)
        for stop in (2, 3):
            states = all_states()
            seed_all(99)
            loader = make()
            loader.load_state_dict(through_a_file(state))
            assert loader.state_dict()["batches"] == len(before) - 8
            set_states(states)
            more, state = read(loader, 1, stop)
            before += more
        assert before == whole[: 8 + 2 + 2 + 3]


def test_samples_are_not_read_again():
    loader = DataLoader(Counting(), 3)
    _, state = read(loader, 1, 5)
    loader = DataLoader(Counting(), 3)
    loader.load_state_dict(state)
    assert len(list(loader)) == 3
    assert loader.dataset.reads == COUNT - 15


def test_other_number_of_workers():
    """Allowed as long as the workers drew nothing."""
    for saved, used in ((0, 2), (2, 0), (2, 1)):
        for kind in ("shuffled", "own generator", "at once"):
            seed_all(1)
            whole = read(LOADERS[kind](num_workers=saved), 1)[0]
            seed_all(1)
            before, state = read(LOADERS[kind](num_workers=saved), 1, 4)
            states = all_states()
            seed_all(99)
            loader = LOADERS[kind](num_workers=used)
            loader.load_state_dict(state)
            set_states(states)
            assert before + read(loader, 1)[0] == whole
    _, state = read(LOADERS["random samples"](num_workers=2), 1, 4)
    loader = LOADERS["random samples"](num_workers=1)
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="equally many"):
        next(iter(loader))


@pytest.mark.parametrize("workers", ["no workers", "persistent workers"])
def test_abandoned_pass_is_forgotten(workers):
    def make():
        return LOADERS["random samples"](**WORKERS[workers])

    seed_all(1)
    loader = make()
    for _ in loader:
        break
    state, states = loader.state_dict(), all_states()
    assert state["batches"] == 0
    whole = read(loader, 1)[0]
    assert resumed(make, state, states)[: len(whole)] == whole


@pytest.mark.parametrize("workers", WORKERS)
def test_end_of_a_pass_that_is_held(workers):
    """Where the last window of `accumulate` is: resumed, the pass ends at once."""
    loader = LOADERS["random samples"](**WORKERS[workers])
    passing = iter(loader)
    assert len(list(passing)) == 8
    state = loader.state_dict()
    del passing
    assert (state["batches"], loader.state_dict()["batches"]) == (8, 0)
    loader = LOADERS["random samples"](**WORKERS[workers])
    loader.load_state_dict(through_a_file(state))
    assert [len(list(loader)), len(list(loader))] == [0, 8]


def test_wrong_states():
    loader = DataLoader(Plain(), 3)
    with pytest.raises(ValueError, match="not one that"):
        loader.load_state_dict({"batches": 3})
    with pytest.raises(ValueError, match="not one that"):
        loader.load_state_dict(None)
    _, state = read(loader, 1, 7)
    short = DataLoader(range(9), 3)
    short.load_state_dict(state)
    with pytest.raises(ValueError, match="behind the end"):
        next(iter(short))
    other = DataLoader(Plain(), 3, True, generator=generator())
    other.load_state_dict(state)
    with pytest.raises(ValueError, match="other generators"):
        next(iter(other))
    free = DataLoader(Plain(), 3, num_workers=2, in_order=False)
    passing = iter(free)
    next(passing)
    with pytest.raises(RuntimeError, match="in_order"):
        free.state_dict()


def test_loader_can_still_be_pickled():
    loader = DataLoader(Plain(), 3)
    passing = iter(loader)
    next(passing)
    assert len(list(pickle.loads(pickle.dumps(loader)))) == 8
