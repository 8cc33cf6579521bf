"""Between steps that wait, parameters and state change: no program takes what was there before."""

from __future__ import annotations

import pytest

from tests.compile.test_same import CHANGES, trained


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_noticed(name, clip, gpu):
    assert trained("cuda", name, True, clip) == trained("cuda", name, False, clip)
