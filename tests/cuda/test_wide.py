"""Kernels that take four elements at a time: the values are those of the CPU, wherever memory begins."""

from __future__ import annotations

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.core import device as devices
from cleargrad.devices.cuda import nests
from cleargrad.devices.cuda.driver import Cuda
from tests.cuda.emulated import Emulated

KINDS = [cg.float32, cg.float64, cg.bfloat16, cg.int64, cg.bool]
EXTENTS = [(6, 128), (5, 7, 36), (3, 131), (2, 3, 4)]


DRIVERS: list[Cuda] = []  # programs are kept with the memory that they were made for


@pytest.fixture
def cuda(gpu: Emulated, monkeypatch: pytest.MonkeyPatch) -> Cuda:
    """One device for all tests of this file."""
    if not DRIVERS:
        driver = devices.drivers["cuda"]
        assert isinstance(driver, Cuda)
        DRIVERS.append(driver)
    monkeypatch.setitem(devices.drivers, "cuda", DRIVERS[0])
    return DRIVERS[0]


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes from which on kernels are made wide, brought within reach of tests."""
    monkeypatch.setattr(nests, "ENOUGH", 4)
    monkeypatch.setattr(nests, "MANY", 256)
    monkeypatch.setattr(nests, "CROWD", 2048)


def made(shape: tuple[int, ...], dtype: cg.dtype, seed: int = 0) -> cg.Tensor:
    values = np.random.default_rng(seed).integers(-9, 9, shape)
    found = cg.tensor(values.astype(np.float32) / 4 if dtype.is_floating_point else values)
    return found.to(dtype)


def bits(tensor: cg.Tensor) -> bytes:
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype is cg.bfloat16 else tensor).numpy().tobytes()


def elementwise(x: cg.Tensor, y: cg.Tensor) -> list[cg.Tensor]:
    """Operands that lie as a kernel likes them, and ones that do not."""
    turned = x.transpose(-1, -2)
    one = cg.ones((), dtype=x.dtype, device=x.device)
    return [
        cg.where(x > y, x, y),
        turned.contiguous(),
        cg.where(turned > one, turned, one),
        x[1:].clone(),
        cg.where(x[1:] > y[:-1], x[1:], y[1:]),
        cg.where(x[..., 1:] > y[..., :-1], x[..., :-1], y[..., 1:]),
        cg.where(x[..., :-1:2] > y[..., 1::2], x[..., :-1:2], one),
        cg.where(x > y[..., :1], x, y[..., :1, :]),
        x.flatten()[1:-3].clone(),
        x.to(cg.float64),
        x.to(cg.bfloat16),
        cg.cat([x, y[..., 1:]], -1),
        cg.cat([y[..., :4], x], -1),
    ]


@pytest.mark.parametrize("shape", EXTENTS, ids=str)
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_elements_as_on_the_cpu(cuda: Cuda, shape: tuple[int, ...], dtype: cg.dtype) -> None:
    x, y = made(shape, dtype), made(shape, dtype, 1)
    wanted = elementwise(x, y)
    found = elementwise(x.to("cuda"), y.to("cuda"))
    compiled = cg.compile(elementwise)(x.to("cuda"), y.to("cuda"))
    for number, (one, other, third) in enumerate(zip(wanted, found, compiled, strict=True)):
        assert bits(one) == bits(other) == bits(third), number
    assert shape == (3, 131) or any("put_four(" in source for source in cuda.runtime.sources.values())


def test_inputs_that_begin_anywhere(cuda: Cuda) -> None:
    """A program is made once; where its inputs begin is another place every time."""
    x = made((4100,), cg.float32).to("cuda")

    def program(x: cg.Tensor) -> cg.Tensor:
        rows = x.reshape(8, 512)
        return rows * 2 + rows.sum(1, keepdim=True)

    compiled = cg.compile(program)
    wanted = [bits(program(x.cpu()[k : k + 4096])) for k in range(4)]
    assert [bits(compiled(x[k : k + 4096])) for k in range(4)] == wanted


@pytest.mark.parametrize("count", [128, 130])
@pytest.mark.parametrize("dtype", [cg.float32, cg.bfloat16], ids=str)
def test_gathered(cuda: Cuda, count: int, dtype: cg.dtype) -> None:
    table, places = made((9, count), dtype), cg.tensor([[3, 1, 8], [0, 3, 2]])

    def read(table: cg.Tensor, places: cg.Tensor) -> tuple[cg.Tensor, ...]:
        rows = table[places] * 2
        columns = table[:, places.flatten()]
        along = cg.gather(table, 1, (table[:, :4].abs()).long())
        return rows, rows.amax(-1), columns, along

    wanted = read(table, places)
    for way in (read, cg.compile(read)):
        found = way(table.to("cuda"), places.to("cuda"))
        assert [bits(x) for x in found] == [bits(x) for x in wanted]


@pytest.mark.parametrize(
    "shape", [(3, 768), (40, 132), (2, 3, 6, 28), (7, 130), (1, 40000), (3, 40004)], ids=str
)
def test_reductions_alone_and_among_others(cuda: Cuda, shape: tuple[int, ...]) -> None:
    """Bits follow from the extents, whatever lies beside a reduction, and wherever its operands begin."""
    x = cg.tensor(np.random.default_rng(3).standard_normal(shape).astype(np.float32)).to("cuda")
    dims = tuple(range(1, len(shape)))

    def alone(x: cg.Tensor) -> cg.Tensor:
        return x.sum(dims)

    def fused(x: cg.Tensor) -> tuple[cg.Tensor, ...]:
        total = x.sum(dims, keepdim=True)
        spread = ((x - total) ** 2).sum(dims)
        return total, spread, x.exp() / total, x.amax(dims)

    wanted = bits(alone(x))
    total, spread, shares, most = cg.compile(fused)(x)
    assert bits(total) == wanted == bits(cg.compile(alone)(x))
    assert bits(spread) == bits(((x - total) ** 2).sum(dims))
    assert bits(shares) == bits(x.exp() / total)
    assert bits(most) == bits(x.cpu().amax(dims))
    shifted = cg.cat([x.flatten()[:1], x.flatten()])[1:].reshape(shape)
    turned = x.transpose(0, -1).contiguous().transpose(0, -1)
    assert bits(alone(shifted)) == bits(alone(turned)) == wanted
    assert bits(cg.compile(alone)(shifted)) == bits(cg.compile(alone)(turned)) == wanted
    near = x.cpu().double().sum(dims).numpy()
    assert np.allclose(total.cpu().numpy().reshape(near.shape), near, rtol=1e-4, atol=1e-2)


def test_columns(cuda: Cuda) -> None:
    x = cg.tensor(np.random.default_rng(4).standard_normal((700, 40)).astype(np.float32))

    def sums(x: cg.Tensor) -> tuple[cg.Tensor, ...]:
        return x.sum(0), (x * 2).amax(0)

    found, alone = cg.compile(sums)(x.to("cuda")), sums(x.to("cuda"))
    assert [bits(x) for x in found] == [bits(x) for x in alone]
    assert np.allclose(found[0].cpu().numpy(), x.double().sum(0).numpy(), atol=1e-3)
