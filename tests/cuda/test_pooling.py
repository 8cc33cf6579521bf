"""Pooling on a GPU: the same values, winners and gradients as on the CPU, without the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cleargrad as cg
from cleargrad.devices.cuda import parts
from cleargrad.devices.cuda.driver import Cuda
from cleargrad.nn import functional as F

SIZES = {1: (11,), 2: (9, 7), 3: (5, 6, 4)}
WINDOWS: dict[str, Any] = {
    "even": {"kernel_size": 2},
    "padded": {"kernel_size": 3, "stride": 2, "padding": 1},
    "overlapping": {"kernel_size": 3, "stride": 1, "padding": 1},
    "apart": {"kernel_size": 2, "stride": 3},
    "dilated": {"kernel_size": 2, "stride": 2, "padding": 1, "dilation": 2},
    "overhanging": {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    "one": {"kernel_size": 1},
}


def image(rank: int, kind: str) -> np.ndarray:
    generator = np.random.default_rng(rank)
    x = generator.standard_normal((2, 3, *SIZES[rank])).astype(np.float32)
    if kind == "ties":
        x = np.round(x)
    if kind == "holes":
        x[generator.random(x.shape) < 0.2] = np.nan
        x[generator.random(x.shape) < 0.3] = -np.inf
    return x


def results(function: Any, x: np.ndarray, place: str, dtype: Any = cg.float32, **options: Any) -> list[Any]:
    """What a pooling gives, and its gradient."""
    leaf = cg.tensor(x, dtype=dtype, device=place).requires_grad_()
    found = function(leaf, **options)
    found = found if isinstance(found, tuple) else (found,)
    weights = cg.arange(1, found[0].numel() + 1, device=place).reshape(found[0].shape).to(dtype)
    (slope,) = cg.autograd.grad(found[0], leaf, weights)
    return [part.detach().cpu() for part in (*found, slope)]


def compare(cuda: Cuda, function: Any, x: np.ndarray, exact: bool = True, **options: Any) -> None:
    ours, cpu = (results(function, x, place, **options) for place in ("cuda", "cpu"))
    for one, other in zip(ours, cpu, strict=True):
        if exact:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one.float().numpy(), other.float().numpy())
        else:
            cg.testing.assert_close(one, other)
    assert not cuda.on_host, "calls were made by the CPU"


@pytest.mark.parametrize("kind", ["plain", "ties", "holes"])
@pytest.mark.parametrize("rank", SIZES)
@pytest.mark.parametrize("name", WINDOWS)
def test_maxima(cuda: Cuda, name: str, rank: int, kind: str) -> None:
    function = getattr(F, f"max_pool{rank}d_with_indices")
    compare(cuda, function, image(rank, kind), **WINDOWS[name])


@pytest.mark.parametrize("name", ["padded", "dilated"])
def test_maxima_of_many_taps(cuda: Cuda, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "UNROLLED", 0)
    compare(cuda, F.max_pool2d_with_indices, image(2, "holes"), **WINDOWS[name])
    x = cg.tensor(image(2, "ties"))
    cg.testing.assert_close(F.max_pool2d(x.cuda(), **WINDOWS[name]).cpu(), F.max_pool2d(x, **WINDOWS[name]))


def test_maxima_without_winners(cuda: Cuda) -> None:
    x = cg.tensor(image(2, "holes"))
    ours, cpu = F.max_pool2d(x.cuda(), 3, 2, 1).cpu(), F.max_pool2d(x, 3, 2, 1)
    np.testing.assert_array_equal(ours.numpy(), cpu.numpy())
    assert not cuda.on_host


def test_narrow_gradients_are_added_wide(cuda: Cuda) -> None:
    compare(cuda, F.max_pool2d, image(2, "plain"), dtype=cg.bfloat16, kernel_size=3, stride=1, padding=1)


def test_gradient_of_the_gradient(cuda: Cuda) -> None:
    def twice(place: str) -> cg.Tensor:
        x = cg.tensor(image(2, "plain"), device=place).requires_grad_()
        (slope,) = cg.autograd.grad(F.max_pool2d(x, 3, 2, 1).square().sum(), x, create_graph=True)
        return cg.autograd.grad(slope.square().sum(), x)[0].cpu()

    cg.testing.assert_close(twice("cuda"), twice("cpu"))
    assert not cuda.on_host


@pytest.mark.parametrize("rank", SIZES)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_adaptive(cuda: Cuda, rank: int, size: int) -> None:
    for kind in ("ties", "holes"):
        compare(
            cuda, getattr(F, f"adaptive_max_pool{rank}d_with_indices"), image(rank, kind), output_size=size
        )
    compare(
        cuda, getattr(F, f"adaptive_avg_pool{rank}d"), image(rank, "plain"), exact=False, output_size=size
    )
