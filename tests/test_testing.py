"""torch.testing: the same verdicts, and the same words about differences."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

NAN = float("nan")
INF = float("inf")
PAIRS = [
    lambda T: (T.tensor([1.0, 2.0]), T.tensor([1.0, 2.1])),
    lambda T: (T.tensor([1.0, 2.0]), T.tensor([1.0, 2.0 + 1e-6])),
    lambda T: (T.tensor([1.0, 2.0]), T.tensor([1.0, 2.1, 3.0])),
    lambda T: (T.tensor([1.0]), T.tensor([1.0]).double()),
    lambda T: (T.tensor([1.0]), T.tensor([1.0]).double(), {"check_dtype": False}),
    lambda T: (T.tensor(1.0), T.tensor(2.0)),
    lambda T: (1.0, 2.0),
    lambda T: (1, 2),
    lambda T: (1, 1.0),
    lambda T: (True, False),
    lambda T: (3 + 1j, 3 + 2j),
    lambda T: ([1, 2], [1, 3]),
    lambda T: ([1], [1, 2]),
    lambda T: ((1, 2), [1, 2]),
    lambda T: ({"a": T.tensor(1.0)}, {"b": T.tensor(1.0)}),
    lambda T: ({"a": [1, T.tensor([2.0])]}, {"a": [1, T.tensor([3.0])]}),
    lambda T: (T.tensor([1, 2]), T.tensor([1, 3])),
    lambda T: (T.tensor([True]), T.tensor([False])),
    lambda T: (T.tensor([1, 2, 3]), T.tensor([1, 2, 4]), {"rtol": 0, "atol": 1}),
    lambda T: (T.tensor(NAN), T.tensor(NAN)),
    lambda T: (T.tensor(NAN), T.tensor(NAN), {"equal_nan": True}),
    lambda T: (T.tensor([1.0, INF]), T.tensor([1.0, 2.5])),
    lambda T: (INF, INF),
    lambda T: (T.tensor([[1.0, 5.0], [2.0, 3.0]]), T.tensor([[1.0, 2.0], [2.0, 3.1]])),
    lambda T: (T.tensor([1.0, 2.0], dtype=T.float16), T.tensor([1.0, 2.5], dtype=T.float16)),
    lambda T: (T.tensor([1.0, 2.0], dtype=T.bfloat16), T.tensor([1.0, 2.5], dtype=T.bfloat16)),
    lambda T: (T.ones(2, 3).t(), T.ones(3, 2), {"check_stride": True}),
    lambda T: (np.ones(2), np.zeros(2)),
    lambda T: (T.nn.Parameter(T.ones(2)), T.ones(2)),
    lambda T: (T.tensor([1.0]), 1.0),
    lambda T: ("a", "a"),
    lambda T: (None, 1),
    lambda T: (T.tensor([0.0]), T.tensor([0.1])),
    lambda T: (T.tensor([1.0]), T.tensor([2.0]), {"msg": "mine"}),
    lambda T: (T.tensor([1.0]), T.tensor([2.0]), {"msg": lambda text: "mine: " + text}),
    lambda T: (T.tensor([1.0]), T.tensor([2.0]), {"rtol": 1}),
]


@pytest.mark.parametrize("pair", PAIRS)
def test_assert_close_says_what_pytorch_says(pair: Any) -> None:
    def verdict(T: Any) -> str:
        actual, expected, *options = pair(T)
        try:
            T.testing.assert_close(actual, expected, **(options[0] if options else {}))
        except Exception as failure:
            return f"{type(failure).__name__}: {failure}"
        return "close"

    assert verdict(cg).replace("cleargrad.core.tensor", "torch") == verdict(torch)


def test_make_tensor_draws_pytorchs_numbers() -> None:
    def run(T: Any) -> Any:
        T.manual_seed(0)
        made = [
            {"dtype": T.float32},
            {"dtype": T.int64},
            {"dtype": T.bool},
            {"dtype": T.complex64},
            {"dtype": T.float32, "low": 0, "high": 2, "requires_grad": True},
            {"dtype": T.uint8, "exclude_zero": True},
            {"dtype": T.float16, "low": -1e9, "high": 1e9},
            {"dtype": T.int64, "low": 1.5, "high": 3},
            {"dtype": T.float64, "noncontiguous": True},
            {"dtype": T.float32, "low": 2, "high": 1},
            {"dtype": T.int64, "requires_grad": True},
        ]
        found = [failure(lambda k=k: T.testing.make_tensor((2, 3), device="cpu", **k)) for k in made]
        return found, found[8].stride()

    same(run)


def test_assert_allclose_is_deprecated() -> None:
    with pytest.warns(FutureWarning, match="assert_close"):
        cg.testing.assert_allclose(cg.ones(2), np.ones(2))
    with warnings.catch_warnings(), pytest.raises(AssertionError):
        warnings.simplefilter("ignore")
        cg.testing.assert_allclose(cg.ones(2), [1.0, 2.0])
