"""torch.utils._pytree, dlpack, hooks and benchmark."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils._pytree
import torch.utils.benchmark

import cleargrad as cg
from tests.oracle import failure, same

Point = namedtuple("Point", "x y")
TREES: list[Any] = [
    1,
    [],
    [1, (2, 3), {"b": 4, "a": [5]}],
    OrderedDict(b=1, a=(2,)),
    Point(1, [2, 3]),
    (None, [deque([1, 2], 5)]),
    defaultdict(list, {"x": [1]}),
]


@pytest.mark.parametrize("tree", TREES)
def test_trees(tree: Any) -> None:
    def run(T: Any) -> Any:
        trees = T.utils._pytree
        leaves, spec = trees.tree_flatten(tree)
        doubled = trees.tree_map(lambda x: x if x is None else x * 2, tree)
        again = trees.tree_unflatten(leaves, spec)
        both = trees.tree_map(lambda x, y: (x, y), tree, tree)
        only = trees.tree_map_only(int, lambda x: -x, tree)
        return (
            leaves, spec.num_leaves, again == tree, type(again) is type(tree), repr(doubled), repr(both),
            repr(only),
            spec == trees.tree_structure(doubled), failure(lambda: trees.tree_unflatten([*leaves, 1], spec)),
        )  # fmt: skip

    same(run)


def test_classes_of_ones_own() -> None:
    class Pair:
        def __init__(self, a: Any, b: Any):
            self.a, self.b = a, b

    trees = cg.utils._pytree
    assert len(trees.tree_leaves(Pair(1, 2))) == 1
    trees.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda parts, _: Pair(*parts))
    assert trees.tree_leaves([Pair(1, 2), 3]) == [1, 2, 3]
    assert trees.tree_map(lambda x: x + 1, Pair(1, 2)).b == 3
    with pytest.raises(ValueError, match="already registered"):
        trees.register_pytree_node(Pair, None, None)
    with pytest.raises(ValueError, match="arity"):
        trees.tree_map(lambda x, y: x, [1, 2], [1])


def test_dlpack_and_hooks() -> None:
    x = cg.utils.dlpack.from_dlpack(torch.arange(3.0))
    assert x.tolist() == [0, 1, 2]
    assert np.from_dlpack(cg.arange(3)).tolist() == [0, 1, 2]
    handle = cg.nn.Linear(1, 1).register_forward_hook(print)
    assert isinstance(handle, cg.utils.hooks.RemovableHandle)


def test_timer() -> None:
    timer = cg.utils.benchmark.Timer("torch.add(x, x)", globals={"x": cg.ones(8)}, label="add", sub_label="8")
    once = timer.timeit(100)
    assert once.number_per_run == 100 and 0 < once.median == once.mean < 0.01
    several = timer.blocked_autorange(min_run_time=0.02)
    assert sum(several.raw_times) >= 0.02 and several.iqr >= 0
    assert "add: 8" in str(several) and "1 thread" in str(several)
    text = str(cg.utils.benchmark.Compare([once, several]))
    assert "[ add" in text.replace("-", "") and "Times are in" in text
    same(lambda T: failure(lambda: T.utils.benchmark.Timer(lambda: 1)))


@pytest.mark.parametrize("tree", TREES)
def test_paths(tree: Any) -> None:
    def run(T: Any) -> Any:
        trees = T.utils._pytree
        named = [(trees.keystr(path), leaf) for path, leaf in trees.tree_leaves_with_path(tree)]
        mapped = trees.tree_map_with_path(lambda path, leaf: (len(path), leaf), tree)
        flat, spec = trees.tree_flatten_with_path(tree)
        return named, mapped == tree, len(flat), spec.num_leaves

    same(run)


def test_dictionaries_by_key() -> None:
    def run(T: Any) -> Any:
        trees = T.utils._pytree
        values, keys = trees._dict_flatten({"b": 1, "a": 2})
        pairs, _ = trees._dict_flatten_with_keys({"b": 1, "a": 2})
        asked = [trees._is_leaf(1), trees._is_leaf([]), trees._get_node_type(Point(1, 2)) is namedtuple]
        return (
            values,
            keys,
            [(str(key), value) for key, value in pairs],
            trees._dict_unflatten(values, keys),
            asked,
        )

    same(run)
