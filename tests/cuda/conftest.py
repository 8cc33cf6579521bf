"""The device "cuda" by way of the C++ compiler, for as long as a test runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cleargrad.core import device as devices
from cleargrad.core import philox
from cleargrad.devices.cuda.driver import Cuda
from tests.cuda.emulated import COMPILER, Emulated

RUNTIME: list[Emulated] = []  # one for all tests, so that kernels are compiled once


@pytest.fixture(autouse=True)
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuda]:
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    if not RUNTIME:
        RUNTIME.append(Emulated())
    driver = Cuda(RUNTIME[0])
    monkeypatch.setitem(devices.drivers, "cuda", driver)
    monkeypatch.setitem(philox.defaults, "cuda:0", philox.Philox("cuda:0"))
    yield driver
