"""Where a DataLoader is: what its state_dict holds, and how a new loader gets to the same place.

An order of samples is not saved but drawn again: from the states that the random generators had when the pass
began. Afterwards they are put back, so that getting there leaves no trace. Read next:
utils/data/collate.py.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from cleargrad.errors import error
from cleargrad.random import Generator, default_generator
from cleargrad.utils.data.distributed import DistributedSampler
from cleargrad.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

# Samplers that draw from cleargrad's generators only.
OURS = (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

# A position between two passes, and what every state has.
NOWHERE: dict[str, Any] = {
    "batches": 0,  # how many were given out
    "began": None,  # the states of generators when the pass began
    "seed": None,  # the base seed of the workers
    "seed_follows": False,  # whether that was drawn behind the sampler's first look at the generators
    "workers": None,  # the states of generators in the workers when the pass began, if they ever drew
    "reread": False,  # whether workers must read again what came before: the random numbers of this pass
    "generators": [],  # the states of the loader's own generators now
}


# Random numbers ---------------------------------------------------------------------------------------------


def draw_states(generators: list[Generator], everything: bool) -> dict[str, Any]:
    """The states of generators, with `everything` also of Python's and NumPy's, as plain data for `save`."""
    states: dict[str, Any] = {"generators": [generator.get_state() for generator in generators]}
    if everything:
        _, words, *rest = np.random.get_state()
        states["python"] = random.getstate()
        states["numpy"] = (words.tolist(), *rest)  # type: ignore[union-attr]
    return states


def put_states(states: dict[str, Any], generators: list[Generator]) -> None:
    """Makes generators continue from saved states."""
    for generator, state in zip(generators, states["generators"]):
        generator.set_state(state)
    if "python" in states:
        version, words, normal = states["python"]
        random.setstate((version, tuple(words), normal))
        words, *rest = states["numpy"]
        np.random.set_state(("MT19937", np.array(words, np.uint32), *rest))


def same_states(one: dict[str, Any], other: dict[str, Any]) -> bool:
    pairs = zip(one["generators"], other["generators"])
    if not all(np.array_equal(a._data, b._data) for a, b in pairs):
        return False
    return all(one[name] == other[name] for name in one if name != "generators")


def draw_worker_states() -> dict[str, Any]:
    """In a worker, all that a dataset may draw from."""
    return draw_states([default_generator], everything=True)


def put_worker_states(states: dict[str, Any]) -> None:
    put_states(states, [default_generator])


class Sources:
    """What the samplers of a loader may draw from: the default generator first, then those they were given."""

    def __init__(self, loader: Any) -> None:
        samplers = [loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)]
        found = [loader.generator, *(getattr(sampler, "generator", None) for sampler in samplers)]
        unique = {id(generator): generator for generator in found if isinstance(generator, Generator)}
        unique.pop(id(default_generator), None)
        self.own = list(unique.values())
        self.all = [default_generator, *self.own]
        self.everything = any(type(s) not in OURS for s in samplers if s is not None)

    def draw(self) -> dict[str, Any]:
        return draw_states(self.all, self.everything)

    def put(self, states: dict[str, Any]) -> None:
        put_states(states, self.all)


# Positions --------------------------------------------------------------------------------------------------


def position_of(loader: Any, current: Any) -> dict[str, Any]:
    """What load_state_dict needs; `current` is the pass that somebody holds, or None between passes."""
    own = [generator.get_state() for generator in Sources(loader).own]
    if current is not None:
        place = current._position()
    else:
        place = loader._iterator._position_between() if loader._iterator is not None else {}
    return NOWHERE | {"generators": own} | place


def checked_position(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict) or set(state) != set(NOWHERE):
        found = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
        rule = "the state is not one that a DataLoader's state_dict() made"
        raise error(ValueError, "load_state_dict", rule, found=found, expected=sorted(NOWHERE))
    return state


@contextlib.contextmanager
def replaying(loader: Any, position: dict[str, Any]) -> Iterator[None]:
    """Inside, a pass is begun as it began once; afterwards generators are where they were, or had been."""
    sources = Sources(loader)
    if len(sources.own) != len(position["generators"]):
        rule = "the state was saved by a loader with other generators"
        saved, here = len(position["generators"]), len(sources.own)
        raise error(ValueError, "load_state_dict", rule, saved=saved, here=here)
    own = {"generators": position["generators"]}
    if position["began"] is None:  # nothing to repeat: a new pass draws what it draws
        put_states(own, sources.own)
        yield
        return
    present = draw_states([default_generator], sources.everything)
    try:
        yield
    finally:
        put_states(present, [default_generator])
        put_states(own, sources.own)


def skip_indices(indices: Iterator, count: int) -> None:
    """Moves a sampler's iterator on without reading samples."""
    for done in range(count):
        try:
            next(indices)
        except StopIteration:
            raise too_short(count, done) from None


def too_short(count: int, found: int) -> Exception:
    rule = "the saved position is behind the end: the dataset, sampler or batch size must have changed"
    return error(ValueError, "load_state_dict", rule, position=count, batches=found)
