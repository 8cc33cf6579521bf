"""Calls that are known again give what they gave before: values to the last bit, gradients, nodes and errors.

Here every public function asks what is known, and whatever comes twice is studied: each sample of each op is called
with its own values and with the same values in another order, so that nothing of an earlier call may be left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.core.tensor import Tensor
from cleargrad.devices.cpu.programs import recall
from tests.bits import same_bits
from tests.compile.test_programs import results
from tests.ops.cases import Case, cases, to_ours

pytestmark = pytest.mark.eager


@pytest.fixture
def keen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All functions ask, and all that comes twice is studied."""
    monkeypatch.setattr(recall, "BETWEEN", 1)
    monkeypatch.setattr(recall, "HOPELESS", 1 << 30)
    recall.install_all()
    yield
    recall.restore_all()


def reversed_values(value: Any) -> Any:
    """The same values in another order."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value.reshape(-1)[::-1].reshape(value.shape))
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(map(reversed_values, value))
    return value


def outcome(case: Case, sample: Any, change: Any) -> list[Tensor] | type[Exception]:
    changed = type("Changed", (), {
        "args": [change(x) for x in sample.args], "kwargs": {k: change(x) for k, x in sample.kwargs.items()},
    })  # fmt: skip
    state = cg.get_rng_state()
    try:
        return results(case, changed, to_ours, cg.from_numpy)
    except Exception as failure:
        return type(failure)
    finally:
        cg.set_rng_state(state)


def same_outcome(found: Any, expected: Any, what: str) -> None:
    if isinstance(expected, type) or isinstance(found, type):
        assert found is expected, what
        return
    for out, wanted in zip(found, expected, strict=True):
        same_bits(out, wanted, what)
        assert type(out) is type(wanted), what
        assert out.stride() == wanted.stride(), what
        assert out.requires_grad == wanted.requires_grad, what
        assert type(out.grad_fn) is type(wanted.grad_fn), what


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", cases(), ids=repr)
def test_every_sample(case: Case, request: pytest.FixtureRequest) -> None:
    changes = {"values": lambda x: x, "reversed": reversed_values}
    expected = {
        (number, name): outcome(case, sample, change)
        for number, sample in enumerate(case.good())
        for name, change in changes.items()
    }
    request.getfixturevalue("keen")
    for number, sample in enumerate(case.good()):
        for name in ("values", "values", "values", "reversed", "values", "reversed"):
            found = outcome(case, sample, changes[name])
            same_outcome(found, expected[number, name], f"{case}{sample}, {name}")
