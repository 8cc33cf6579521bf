"""Compiled functions when Python's own state changes between calls: results and effects as of plain calls."""

from __future__ import annotations

import math
import warnings
from contextlib import nullcontext
from typing import Any

import pytest

import cleargrad
from tests.compile.state import PROGRAMS
from tests.compile.test_python_programs import keenly


def plain(function: Any) -> Any:
    return function


def comparable(value: Any) -> Any:
    """A nested result with tensors as lists; dictionaries keep their order."""
    if isinstance(value, cleargrad.Tensor):
        return ("tensor", tuple(value.shape), str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return [(comparable(key), comparable(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [comparable(part) for part in value]
    return value


def agree(one: Any, other: Any) -> bool:
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(agree, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("keen", [False, True], ids=["", "keen"])
@pytest.mark.parametrize(("kind", "program"), [(k, f) for _, k, f in PROGRAMS], ids=[n for n, *_ in PROGRAMS])
def test_state_that_changes_between_calls(kind: str, program: Any, keen: bool) -> None:
    with warnings.catch_warnings(), keenly() if keen else nullcontext():
        warnings.simplefilter("ignore")
        expected = comparable(program(cleargrad, plain))
        found = comparable(program(cleargrad, cleargrad.compile))
    assert agree(expected, found), f"\nplain     {expected}\ncompiled  {found}"
