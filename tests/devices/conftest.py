"""A second device beside "meta", for as long as a test runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cleargrad.core import device as devices
from tests.devices.counting import Counting


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    driver = Counting()
    monkeypatch.setattr(devices, "KNOWN", [*devices.KNOWN])
    monkeypatch.setitem(devices.drivers, driver.type, driver)
    devices.register(driver)
    yield driver
