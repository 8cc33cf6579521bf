"""Every sampler gives PyTorch's indices for the same seed, and draws no more and no fewer numbers."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.data.both import fails, same

WEIGHTS = [0.1, 0.9, 0.4, 0.7, 3.0, 0.6]

SAMPLERS = {
    "sequential": lambda data, generator: data.SequentialSampler(range(5)),
    "random": lambda data, generator: data.RandomSampler(range(40), generator=generator),
    "random, fewer": lambda data, generator: data.RandomSampler(range(40), False, 7, generator),
    "random, more": lambda data, generator: data.RandomSampler(range(5), False, 13, generator),
    "replacement": lambda data, generator: data.RandomSampler(range(9), True, generator=generator),
    "replacement, 70": lambda data, generator: data.RandomSampler(range(9), True, 70, generator),
    "subset": lambda data, generator: data.SubsetRandomSampler([5, 3, 8, 2], generator),
    "weighted": lambda data, generator: data.WeightedRandomSampler(WEIGHTS, 20, generator=generator),
    "weighted, once": lambda data, generator: data.WeightedRandomSampler(WEIGHTS, 4, False, generator),
    "batches": lambda data, generator: data.BatchSampler(
        data.RandomSampler(range(11), generator=generator), 3, False
    ),
    "full batches": lambda data, generator: data.BatchSampler(
        data.RandomSampler(range(11), generator=generator), 3, True
    ),
    "exact batches": lambda data, generator: data.BatchSampler(
        data.RandomSampler(range(12), generator=generator), 3, True
    ),
}


@pytest.mark.parametrize("own_generator", [False, True])
@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
def test_two_passes(make, own_generator):
    def program(torch):
        generator = torch.Generator().manual_seed(5) if own_generator else None
        sampler = make(torch.utils.data, generator)
        return [len(sampler), list(sampler), list(islice(sampler, 2)), list(sampler)]

    same(program)


@pytest.mark.parametrize("count, replicas", [(10, 3), (9, 3), (2, 5), (1, 4), (0, 2)])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
def test_distributed(count, replicas, shuffle, drop_last):
    def program(torch):
        parts = []
        for rank in range(replicas):
            sampler = torch.utils.data.DistributedSampler(
                range(count), replicas, rank, shuffle, 11, drop_last
            )
            sampler.set_epoch(2)
            parts.append([len(sampler), list(sampler)])
        return parts

    same(program)


@pytest.mark.parametrize(
    "make",
    [
        lambda data: data.RandomSampler([]),
        lambda data: data.RandomSampler(range(3), replacement=1),
        lambda data: data.RandomSampler(range(3), num_samples=0),
        lambda data: data.RandomSampler(range(3), num_samples=2.5),
        lambda data: data.WeightedRandomSampler([1.0], 0),
        lambda data: data.WeightedRandomSampler([1.0], True),
        lambda data: data.WeightedRandomSampler([1.0], 2, replacement=1),
        lambda data: data.WeightedRandomSampler([[1.0]], 2),
        lambda data: data.BatchSampler(range(3), 0, False),
        lambda data: data.BatchSampler(range(3), 2.0, False),
        lambda data: data.BatchSampler(range(3), True, False),
        lambda data: data.BatchSampler(range(3), 2, 1),
        lambda data: data.DistributedSampler(range(3), 2, 2),
        lambda data: data.DistributedSampler(range(3)),
        lambda data: iter(data.Sampler()),
        lambda data: len(data.Sampler()),
    ],
)
def test_refusals(make):
    fails(lambda torch: make(torch.utils.data))
