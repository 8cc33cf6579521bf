"""Attention kernels in machine code against plain formulas in float64: sizes, strides, masks, threads."""

from __future__ import annotations

import numpy as np
import pytest

from cleargrad.devices.cpu.kernels import attention
from cleargrad.devices.cpu.launch import Launcher
from tests.bits import same_bits

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
# batch, rows, keys, width, depth
SIZES = [((2, 3), 64, 64, 32, 32), ((2,), 33, 50, 20, 40), ((1, 2), 70, 20, 8, 8), ((1,), 300, 520, 64, 64)]
SMALL = [((3,), 5, 9, 7, 3), ((2, 4), 1, 37, 16, 16), ((), 7, 1, 1, 1), ((2,), 8, 300, 16, 40)]


def numbers(*shape: int, kind: str = "float64", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def mask_of(what: str, batch: tuple, rows: int, keys: int, kind: str) -> np.ndarray | None:
    chosen = np.random.default_rng(9)
    shape = (*batch, rows, keys)
    if what == "none":
        return None
    if what == "float":
        return chosen.standard_normal(shape).astype(kind)
    if what == "keys":  # the same for all rows, as padding is
        return np.broadcast_to(chosen.random((*batch, 1, keys)) > 0.4, shape)
    if what == "turned":
        return (chosen.random((*batch, keys, rows)) > 0.4).swapaxes(-1, -2)
    return chosen.random(shape) > 0.4


def strides(array: np.ndarray) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


def describe(arrays: dict, causal: bool, scale: float) -> attention.AttentionSizes:
    q, k, v, mask = arrays["q"], arrays["k"], arrays["v"], arrays.get("mask")
    kind = "none" if mask is None else "bool" if mask.dtype == bool else "float"
    return attention.AttentionSizes(
        q.shape[:-2], q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1], q.dtype.name, kind, causal, scale,
        {name: strides(array) for name, array in arrays.items()},
    )  # fmt: skip


def attend(arrays: dict, causal: bool, scale: float, threads: int = 1) -> tuple[np.ndarray, ...]:
    q, v = arrays["q"], arrays["v"]
    results = [np.full((*q.shape[:-1], n), 7, q.dtype) for n in (v.shape[-1], 1, 1)]
    arrays = arrays | {"out": results[0]}
    needed = attention.forward(describe(arrays, causal, scale), threads)
    Launcher(needed, threads == 1).run_named(**arrays, peaks=results[1], totals=results[2])
    return tuple(results)


def attend_back(
    arrays: dict, statistics: tuple, causal: bool, scale: float, threads: int = 1
) -> list[np.ndarray]:
    results = {f"d{name}": np.full(arrays[name].shape, 7, arrays[name].dtype) for name in "qkv"}
    arrays = arrays | results
    needed = attention.gradient(describe(arrays, causal, scale), threads)
    Launcher(needed, threads == 1).run_named(**arrays, peaks=statistics[0], totals=statistics[1])
    return list(results.values())


def folded(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, np.float64).reshape(-1, *array.shape[-2:])


def folded_mask(mask: np.ndarray | None) -> np.ndarray | None:
    return None if mask is None else np.ascontiguousarray(mask).reshape(-1, *mask.shape[-2:])


def plain(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, scale: float, causal: bool
) -> tuple[np.ndarray, ...]:
    """softmax(q kᵀ scale + mask) v, the highest score and the sum of exponentials of each row, and the softmax.

    A row that sees nothing gives zero; its sum of exponentials is infinite, so that it sends nothing back.
    """
    scores = q @ k.swapaxes(-1, -2) * scale
    seen = np.ones(scores.shape, bool)
    if causal:
        seen &= np.tri(*scores.shape[-2:], dtype=bool)
    if mask is not None and mask.dtype == bool:
        seen &= mask
    elif mask is not None:
        scores = scores + mask
    scores = np.where(seen, scores, -np.inf)
    some = seen.any(-1, keepdims=True)
    peaks = np.where(some, scores.max(-1, keepdims=True), 0)
    powers = np.exp(scores - peaks)
    totals = np.where(some, powers.sum(-1, keepdims=True), np.inf)
    return powers / totals @ v, peaks, totals, powers / totals


def plain_gradient(
    g: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: np.ndarray, scale: float
) -> tuple[np.ndarray, ...]:
    """The gradients of q, k and v by the chain rule."""
    slopes = g @ v.swapaxes(-1, -2)
    scores = weights * (slopes - (slopes * weights).sum(-1, keepdims=True)) * scale
    return scores @ k, scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g


def computed(arrays: dict, causal: bool, threads: int, scale: float = 0.3) -> list[np.ndarray]:
    """What the kernels give: the result and its statistics, and the gradients of q, k and v."""
    given = {name: array for name, array in arrays.items() if array is not None and name != "g"}
    out, *statistics = attend(given, causal, scale, threads)
    back = attend_back(given | {"g": arrays["g"], "out": out}, tuple(statistics), causal, scale, threads)
    return [out, *statistics, *back]


def compare(arrays: dict, causal: bool, threads: int) -> None:
    scale, limit = 0.3, TOLERANCE[arrays["q"].dtype.name]
    mask = folded_mask(arrays["mask"])
    q, k, v, g = (folded(arrays[name]) for name in "qkvg")
    *expected, weights = plain(q, k, v, mask, scale, causal)
    found = computed(arrays, causal, threads, scale)
    for one, other in zip(found[:3], expected, strict=True):
        np.testing.assert_allclose(folded(one), other, rtol=limit, atol=limit)
    for one, other in zip(found[3:], plain_gradient(g, q, k, v, weights, scale), strict=True):
        size = max(np.abs(other).max(), 1.0)
        np.testing.assert_allclose(folded(one) / size, other / size, rtol=0, atol=limit)


def check(sizes: list, kind: str, causal: bool, mask: str) -> None:
    for number, (batch, rows, keys, width, depth) in enumerate(sizes):
        arrays = {
            "q": numbers(*batch, rows, width, kind=kind), "k": numbers(*batch, keys, width, kind=kind, seed=1),
            "v": numbers(*batch, keys, depth, kind=kind, seed=2), "mask": mask_of(mask, batch, rows, keys, kind),
            "g": numbers(*batch, rows, depth, kind=kind, seed=3),
        }  # fmt: skip
        compare(arrays, causal, threads=1 + number % 2)


@pytest.mark.parametrize("mask", ("none", "bool", "keys", "float", "turned"))
@pytest.mark.parametrize("causal", (False, True))
def test_values_and_gradients(causal: bool, mask: str) -> None:
    check(SIZES, "float32", causal, mask)


@pytest.mark.parametrize("mask", ("none", "bool", "float"))
def test_doubles(mask: str) -> None:
    check(SIZES, "float64", mask == "none", mask)


@pytest.mark.parametrize("causal", (False, True))
def test_few_queries(causal: bool) -> None:
    check(SMALL, "float32", causal, "none")


@pytest.mark.parametrize("length", (40, 300))
def test_parts_of_one_projection(length: int) -> None:
    whole = numbers(2, length, 3, 4, 32, kind="float32")
    q, k, v = (whole[:, :, part].transpose(0, 2, 1, 3) for part in range(3))
    g = numbers(2, length, 4, 32, kind="float32", seed=1).transpose(0, 2, 1, 3)
    compare({"q": q, "k": k, "v": v, "g": g, "mask": None}, True, 2)


def test_keys_shared_by_heads() -> None:
    q, g = numbers(2, 6, 20, 16, kind="float32"), numbers(2, 6, 20, 16, kind="float32", seed=3)
    k, v = (np.broadcast_to(numbers(2, 1, 20, 16, kind="float32", seed=s), q.shape) for s in (1, 2))
    compare({"q": q, "k": k, "v": v, "g": g, "mask": None}, False, 1)


@pytest.mark.parametrize("kind", ("float32", "float64"))
@pytest.mark.parametrize("causal", (False, True))
@pytest.mark.parametrize("batch", ((1,), (2, 3)))
def test_bits_do_not_depend_on_how_keys_are_shared_out(batch: tuple, causal: bool, kind: str) -> None:
    """One head of many keys is cut into chunks, for as many threads as there are."""
    arrays: dict = {name: numbers(*batch, 700, 32, kind=kind, seed=seed) for seed, name in enumerate("qkvg")}
    arrays["mask"] = None
    compare(arrays, causal, 1)
    alone = computed(arrays, causal, 1)
    for threads in (2, 3, 8):
        for one, other in zip(computed(arrays, causal, threads), alone, strict=True):
            same_bits(one, other, threads)


def test_rows_that_see_nothing_are_zero_and_send_nothing_back() -> None:
    q, k, v, g = (numbers(1, 20, 8, kind="float32", seed=seed) for seed in range(4))
    mask = np.ones((1, 20, 20), bool)
    mask[:, 3] = False
    given = {"q": q, "k": k, "v": v, "mask": mask}
    out, peaks, totals = attend(given, False, 0.5)
    assert not out[0, 3].any() and peaks[0, 3] == 0 and totals[0, 3] == np.inf
    dq, dk, dv = attend_back(given | {"g": g, "out": out}, (peaks, totals), False, 0.5)
    assert not dq[0, 3].any() and np.isfinite(dk).all() and np.isfinite(dv).all()


def test_hidden_scores_may_be_no_numbers_and_seen_ones_show() -> None:
    q, k, v = (numbers(1, 20, 8, kind="float32", seed=seed) for seed in range(3))
    k[:, 10] = np.nan
    out, *_ = attend({"q": q, "k": k, "v": v}, True, 0.5)
    assert np.isfinite(out[:, :10]).all() and np.isnan(out[:, 10:]).all()


def test_scores_of_any_size() -> None:
    """Exponentials neither overflow nor take the time that numbers out of the normal range take."""
    q, k, v = (numbers(1, 50, 8, kind="float32", seed=seed) for seed in range(3))
    out, *_ = attend({"q": q * 300, "k": k * 300, "v": v}, False, 1.0)
    expected = plain(folded(q * 300), folded(k * 300), folded(v), None, 1.0, False)[0]
    np.testing.assert_allclose(out, expected, rtol=0, atol=2e-2)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("kind", ("float32", "float64"))
def test_the_widest_heads_fit_into_a_threads_memory(kind: str) -> None:
    q, k, v, g = (
        numbers(2, rows, 1024, kind=kind, seed=seed) / 4 for seed, rows in enumerate((40, 300, 300, 40))
    )
    compare({"q": q, "k": k, "v": v, "g": g, "mask": None}, False, 1)
    compare({"q": q[:, ::2], "k": k[:, ::2], "v": v[:, ::2], "g": g[:, ::2], "mask": None}, False, 1)


def test_memory_does_not_grow_with_the_square_of_the_length() -> None:
    def work(heads: int, length: int, threads: int) -> int:
        steps = (length * 64, 64, 1)
        names = ("g", "q", "k", "v", "out", "dq", "dk", "dv")
        sizes = attention.AttentionSizes(
            (heads,), length, length, 64, 64, "float32", "none", True, 1.0, dict.fromkeys(names, steps)
        )
        assert attention.forward(sizes, threads).work == 0
        return attention.gradient(sizes, threads).work

    for heads in (1, 4, 16, 64):
        assert work(heads, 8192, 2) <= 2 * work(heads, 4096, 2)
        assert work(heads, 4096, 2) == work(
            heads, 4096, 16
        )  # or the number of threads would show in the sums
        # One gradient of the queries for each unit of work, and as many units as occupy the threads of a machine.
        assert work(heads, 4096, 2) <= max(heads, attention.MANY) * 4096 * 64 * 4
