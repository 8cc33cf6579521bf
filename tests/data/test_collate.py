"""Samples into batches, as in PyTorch."""

from __future__ import annotations

from collections import OrderedDict, UserDict, UserList, defaultdict, namedtuple
from types import MappingProxyType

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.utils.data import default_collate
from tests.data.both import fails, plain, same

Point = namedtuple("Point", ["x", "y"])

BATCHES = {
    "ints": lambda torch: [1, 2, 3],
    "bools": lambda torch: [True, False],
    "floats": lambda torch: [1.5, 2.5],
    "strings": lambda torch: ["a", "b"],
    "bytes": lambda torch: [b"a", b"b"],
    "tensors": lambda torch: [torch.ones(2, 3), torch.zeros(2, 3)],
    "numbers as tensors": lambda torch: [torch.tensor(1), torch.tensor(2)],
    "halves": lambda torch: [torch.ones(2, dtype=torch.bfloat16)] * 3,
    "arrays": lambda torch: [np.arange(3), np.arange(3)],
    "0-d arrays": lambda torch: [np.array(1.5), np.array(2.5)],
    "float32 scalars": lambda torch: [np.float32(1), np.float32(2)],
    "float64 scalars": lambda torch: [np.float64(1), np.float64(2)],
    "int32 scalars": lambda torch: [np.int32(1), np.int32(2)],
    "bool scalars": lambda torch: [np.bool_(True), np.bool_(False)],
    "tuples": lambda torch: [(1, torch.ones(2)), (2, torch.zeros(2))],
    "lists": lambda torch: [[1, 2.0], [3, 4.0]],
    "dicts": lambda torch: [{"a": 1, "b": [1, "x"]}, {"a": 2, "b": [2, "y"]}],
    "ordered": lambda torch: [OrderedDict(a=1), OrderedDict(a=2)],
    "defaults": lambda torch: [defaultdict(int, a=1), defaultdict(int, a=2)],
    "named": lambda torch: [Point(1, 2.0), Point(3, 4.0)],
    "ranges": lambda torch: [range(2), range(2)],
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_collate(make):
    same(lambda torch: torch.utils.data.default_collate(make(torch)))


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_convert(make):
    same(lambda torch: torch.utils.data.default_convert(make(torch)))


@pytest.mark.parametrize(
    "sample",
    [0, "a", np.arange(2), np.float32(3), np.array(["a"]), (np.arange(2), 1), Point(np.array(0), 1), None],
)
def test_convert_one(sample):
    same(lambda torch: torch.utils.data.default_convert(sample))


def test_containers_keep_their_kind():
    batch = default_collate([UserDict(a=1), UserDict(a=2)])
    assert type(batch) is UserDict and plain(batch["a"]) == ("torch.int64", [1, 2])
    batch = default_collate([UserList([1]), UserList([2])])
    assert type(batch) is UserList and plain(batch[0]) == ("torch.int64", [1, 2])
    assert type(default_collate([MappingProxyType({"a": 1})])) is MappingProxyType
    first = defaultdict(list, a=1)
    assert default_collate([first]).default_factory is list and first["a"] == 1
    assert isinstance(default_collate([Point(1, 2)]), Point)


@pytest.mark.parametrize(
    "make",
    [
        lambda torch: [object()],
        lambda torch: [None],
        lambda torch: [np.array(["a"])],
        lambda torch: [(1, 2), (1,)],
        lambda torch: [torch.ones(2), torch.ones(3)],
        lambda torch: [{"a": 1}, {"b": 1}],
        lambda torch: [],
    ],
)
def test_refusals(make):
    fails(lambda torch: torch.utils.data.default_collate(make(torch)))


def test_words_for_what_cannot_be_joined():
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy arrays, numbers"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1], [1, 2]])


def test_a_type_of_ones_own():
    from cleargrad.utils.data._utils.collate import collate, default_collate_fn_map

    class Word(str):
        pass

    functions = {Word: lambda batch, *, collate_fn_map: "+".join(batch), **default_collate_fn_map}
    assert collate([Word("a"), Word("b")], collate_fn_map=functions) == "a+b"
    assert cg.utils.data._utils.collate.default_collate is default_collate
