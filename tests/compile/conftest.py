"""What tests of compiled functions are run with."""

from __future__ import annotations

import pytest

from tests.compile.world import BACKENDS


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param
