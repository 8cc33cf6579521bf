"""Datasets and random_split, as in PyTorch."""

from __future__ import annotations

import pytest

import cleargrad as cg
from cleargrad.utils.data import ConcatDataset, Dataset, IterableDataset, StackDataset, Subset
from tests.data.both import fails, same


def rows(torch, count=6):
    values = torch.arange(count * 2).reshape(count, 2)
    return torch.utils.data.TensorDataset(values, torch.arange(count))


def stream(torch, *numbers):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(numbers)

        def __len__(self):
            return len(numbers)

    return Stream()


def test_tensor_dataset():
    same(lambda torch: [len(rows(torch)), rows(torch)[2], rows(torch)[-1], rows(torch)[1:3]])
    fails(lambda torch: torch.utils.data.TensorDataset(torch.ones(2), torch.ones(3)))
    fails(lambda torch: rows(torch)[9])


def test_concatenation():
    same(lambda torch: [(rows(torch) + rows(torch, 3))[index] for index in (0, 5, 6, 8, -1, -9)])
    same(lambda torch: (rows(torch) + rows(torch, 3)).cumulative_sizes)
    fails(lambda torch: (rows(torch) + rows(torch))[-13])
    fails(lambda torch: (rows(torch) + rows(torch))[12])
    fails(lambda torch: torch.utils.data.ConcatDataset([]))
    fails(lambda torch: torch.utils.data.ConcatDataset([stream(torch, 1)]))
    with pytest.warns(FutureWarning, match="renamed"):
        assert ConcatDataset([rows(cg)]).cummulative_sizes == [6]


def test_chain_of_streams():
    same(lambda torch: list(stream(torch, 1, 2) + stream(torch, 3)))
    same(lambda torch: len(stream(torch, 1, 2) + stream(torch, 3)))
    fails(lambda torch: list(torch.utils.data.ChainDataset([rows(torch)])))
    fails(lambda torch: len(torch.utils.data.ChainDataset([rows(torch)])))


def test_stack():
    def tuples(torch):
        return torch.utils.data.StackDataset(rows(torch), torch.utils.data.Subset(rows(torch), range(6)))

    def dicts(torch):
        return torch.utils.data.StackDataset(x=rows(torch), y=rows(torch))

    for make in (tuples, dicts):
        same(lambda torch, make=make: [len(make(torch)), make(torch)[1], make(torch).__getitems__([3, 0])])
    fails(lambda torch: torch.utils.data.StackDataset())
    fails(lambda torch: torch.utils.data.StackDataset(rows(torch), rows(torch, 3)))
    fails(lambda torch: torch.utils.data.StackDataset(rows(torch), x=rows(torch)))


def test_stack_notices_a_short_batch():
    class Short(Dataset):
        def __len__(self):
            return 3

        def __getitems__(self, indices):
            return [1]

    with pytest.raises(ValueError, match="Expected 2, got 1"):
        StackDataset(Short()).__getitems__([0, 1])


def test_subset():
    def program(torch):
        part = torch.utils.data.Subset(rows(torch), [4, 1, 2])
        return [len(part), part[0], part[[0, 2]], part.__getitems__([2, 1])]

    same(program)

    class Half(Subset):
        def __getitem__(self, index):
            return 0

    with pytest.raises(NotImplementedError, match="__getitems__"):
        Half([1, 2], [0])


@pytest.mark.parametrize(
    "lengths", [[3, 7], [10], [0, 10], [0.5, 0.5], [0.3, 0.3, 0.4], [0.25, 0.5, 0.25], [1 / 3, 1 / 3, 1 / 3]]
)
@pytest.mark.parametrize("own_generator", [False, True])
def test_random_split(lengths, own_generator):
    def program(torch):
        generator = torch.Generator().manual_seed(3) if own_generator else torch.default_generator
        parts = torch.utils.data.random_split(range(10), lengths, generator)
        return [list(part.indices) for part in parts]

    same(program)


def test_random_split_refuses():
    fails(lambda torch: torch.utils.data.random_split(range(10), [3, 3]))
    fails(lambda torch: torch.utils.data.random_split(range(10), [0.5, 0.6]))
    fails(lambda torch: torch.utils.data.random_split(range(10), [-0.5, 1.5]))
    with pytest.warns(UserWarning, match="index 1 is 0"):
        cg.utils.data.random_split(range(2), [0.99, 0.01])


def test_base_classes():
    fails(lambda torch: torch.utils.data.Dataset()[0])
    assert Dataset[int] and IterableDataset[int]
    with pytest.raises(TypeError):
        len(Dataset())
