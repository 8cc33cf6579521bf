"""The device "cuda" without a GPU: the runtime of tests/cuda/emulated.py, for as long as a test runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from cleargrad.compile import sides
from cleargrad.core import device as devices
from cleargrad.core import philox
from cleargrad.core.precision import Tf32
from cleargrad.devices.cuda.driver import Cuda
from tests.cuda import emulated
from tests.cuda.emulated import Emulated

MADE: list[Emulated] = []  # kernels that are compiled are there for all tests


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulated]:
    """The runtime of an emulated GPU."""
    if emulated.COMPILER is None:
        pytest.skip("needs g++")
    runtime = Emulated()
    if MADE:
        runtime.functions, runtime.sources = MADE[0].functions, MADE[0].sources
        runtime.folder, runtime.libraries = MADE[0].folder, MADE[0].libraries
    MADE.append(runtime)
    monkeypatch.setitem(devices.drivers, "cuda", Cuda(runtime))
    monkeypatch.setattr(sides, "sides", {})  # they know the driver of the test before
    monkeypatch.setattr(sides, "near", {})
    monkeypatch.setattr(Tf32, "products", False)
    monkeypatch.setitem(philox.defaults, "cuda:0", philox.Philox("cuda:0"))
    yield runtime
    del MADE[1:]


@pytest.fixture
def cuda(gpu: Emulated) -> Cuda:
    """The device of an emulated GPU."""
    driver = devices.drivers["cuda"]
    assert isinstance(driver, Cuda)
    return driver


@pytest.fixture
def small(gpu: Emulated) -> Callable[[int], None]:
    """Says how many bytes the GPU has left."""

    def left(nbytes: int) -> None:
        gpu.free, gpu.total = nbytes, nbytes + gpu.pool.total_bytes()

    return left
