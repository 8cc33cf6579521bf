"""DataLoader in one process: what it accepts, and the batches it gives."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest
import torch as oracle

import cleargrad as cg
from cleargrad.utils.data import DataLoader, Dataset, IterableDataset
from tests.data.both import fails, same


class Squares(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return np.float32(index) ** 2, {"index": index}


def stream_of(torch, count=7):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(count))

        def __len__(self):
            return count

    return Stream()


OPTIONS = [
    {},
    {"batch_size": 4},
    {"batch_size": 4, "drop_last": True},
    {"batch_size": 4, "shuffle": True},
    {"batch_size": None},
    {"batch_size": None, "shuffle": True},
    {"batch_sampler": [[3, 1], [2]]},
    {"sampler": [5, 2, 2], "batch_size": 2},
    {"batch_size": 3, "collate_fn": list},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batches(options):
    def program(torch):
        loader = torch.utils.data.DataLoader(Squares(10), **options)
        return [len(loader), list(loader), list(loader), loader.batch_size, loader.drop_last]

    same(program)


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}], ids=str)
def test_batches_of_a_stream(options):
    def program(torch):
        loader = torch.utils.data.DataLoader(stream_of(torch), **options)
        return [len(loader), list(loader), list(loader)]

    same(program)


def test_generator_of_ones_own():
    def program(torch):
        generator = torch.Generator().manual_seed(3)
        loader = torch.utils.data.DataLoader(range(9), 2, True, generator=generator)
        return [list(loader), list(loader), generator.initial_seed()]

    same(program)


def test_sampler_that_draws_at_once():
    def program(torch):
        class Eager(torch.utils.data.Sampler):
            def __iter__(self):
                return iter(torch.randperm(5).tolist())

        passes = [torch.utils.data.DataLoader(range(5), None, sampler=Eager()) for _ in range(2)]
        return [list(loader) for loader in passes]

    same(program)


def test_early_break_and_a_new_pass():
    def program(torch):
        loader = torch.utils.data.DataLoader(range(10), 3, shuffle=True)
        first = next(iter(loader))
        return [first, list(loader)]

    same(program)


def test_nested_passes():
    def program(torch):
        outer = torch.utils.data.DataLoader(range(4), 2, shuffle=True)
        inner = torch.utils.data.DataLoader(range(3), 1, shuffle=True)
        return [[x, list(inner), list(outer)] for x in outer]

    same(program)


def test_exhausted():
    for dataset in (range(2), stream_of(cg, 2)):
        batches = iter(DataLoader(dataset))
        assert len(list(batches)) == 2
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(batches)


def test_dataset_that_reads_batches():
    class Many(Dataset):
        def __len__(self):
            return 4

        def __getitems__(self, indices):
            return [-index for index in indices]

    assert [batch.tolist() for batch in DataLoader(Many(), 3)] == [[0, -1, -2], [-3]]


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"num_workers": 1, "prefetch_factor": -1},
        {"persistent_workers": True},
        {"sampler": [1], "shuffle": True},
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_sampler": [[1]], "shuffle": True},
        {"batch_sampler": [[1]], "sampler": [1]},
        {"batch_sampler": [[1]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
        {"batch_size": 0},
        {"batch_size": 2.5},
        {"multiprocessing_context": "fork"},
        {"num_workers": 1, "multiprocessing_context": "thread"},
        {"num_workers": 1, "multiprocessing_context": 3},
    ],
    ids=str,
)
def test_refused_options(options):
    fails(lambda torch: torch.utils.data.DataLoader(range(3), **options))


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}], ids=str)
def test_refused_options_of_a_stream(options):
    fails(lambda torch: torch.utils.data.DataLoader(stream_of(torch), **options))


def test_more_refusals():
    fails(lambda torch: torch.utils.data.DataLoader([], shuffle=True))
    fails(lambda torch: iter(torch.utils.data.DataLoader([1], timeout=1)))
    fails(lambda torch: setattr(torch.utils.data.DataLoader([1]), "batch_size", 3))
    fails(lambda torch: len(torch.utils.data.DataLoader(torch.utils.data.IterableDataset())))
    fails(lambda torch: iter(torch.utils.data.DataLoader([1])).__getstate__())


def test_signature():
    theirs = inspect.signature(oracle.utils.data.DataLoader.__init__).parameters
    ours = inspect.signature(DataLoader.__init__).parameters
    assert list(ours) == list(theirs)
    for name in ours:
        assert (ours[name].default, ours[name].kind) == (theirs[name].default, theirs[name].kind)


def test_pinning_is_accepted_and_does_nothing():
    loader = DataLoader([1, 2], pin_memory=True)
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert len(list(loader)) == 2


def test_stream_longer_than_it_says():
    class Liar(IterableDataset):
        def __iter__(self):
            return iter(range(3))

        def __len__(self):
            return 2

    loader = DataLoader(Liar(), batch_size=None)
    assert list(loader) == [0, 1, 2]
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="reported to be 2.*3 samples have been fetched"):
        list(loader)


def test_too_many_workers_are_reported():
    with pytest.warns(UserWarning, match="will create 4000 worker processes"):
        DataLoader([1], num_workers=4000)


@pytest.mark.parametrize(
    "code",
    [
        "import cleargrad.utils.data; cleargrad.utils.data.DataLoader",
        "from cleargrad.utils.data import DataLoader",
        "import cleargrad; cleargrad.utils.data.DataLoader",
        "from cleargrad.utils import data; data.DataLoader",
        "import sys, cleargrad; assert not {'multiprocessing', 'cleargrad.utils.data'} & set(sys.modules)",
    ],
)
def test_imports(code):
    subprocess.run([sys.executable, "-c", code], check=True)
