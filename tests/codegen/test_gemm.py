"""Products of matrices by generated kernels, against NumPy in float64."""

from __future__ import annotations

import ctypes
import mmap
from itertools import product

import numpy as np
import pytest

from cleargrad.devices.cpu.kernels import gemm
from cleargrad.devices.cpu.kernels.packing import PARAMETERS
from cleargrad.devices.cpu.launch import Launches
from cleargrad.devices.cpu.llvm.jit import addresses
from cleargrad.devices.cpu.llvm.text import vector
from cleargrad.devices.cpu.team import RECORD, SCRATCH, WAIT, Team

SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
LAYOUTS = ("rows", "columns", "spread")  # which elements are neighbours: those of a row, of a column, none
SENTINEL = 12345.0


def matrix(shape: tuple[int, ...], layout: str, kind: str = "float32", seed: int = 0) -> np.ndarray:
    *batch, rows, columns = shape
    random = np.random.default_rng(seed)
    if layout == "columns":
        return random.standard_normal((*batch, columns, rows)).astype(kind).swapaxes(-1, -2)
    if layout == "spread":
        return random.standard_normal((*batch, rows, columns, 3)).astype(kind)[..., 1]
    return random.standard_normal(shape).astype(kind)


def strides(array: np.ndarray, batch: tuple[int, ...]) -> tuple[int, ...]:
    steps = tuple(step // array.itemsize for step in array.strides)
    return (0,) * (len(batch) + 2 - array.ndim) + steps


def in_memory(needed: Launches, arrays: dict[str, np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The arguments of each launch, with addresses for names, and the work memory."""
    work = np.empty(needed.work + 64, np.uint8)
    starts = {name: array.ctypes.data for name, array in arrays.items()}
    starts["work"] = work.ctypes.data + -work.ctypes.data % 64
    words = [
        np.array([starts[w[0]] + w[1] if isinstance(w, tuple) else w for w in launch.arguments], np.int64)
        for launch in needed.launches
    ]
    return words, work


def run(needed: Launches, arrays: dict[str, np.ndarray], threads: int) -> None:
    """Runs each thread's share, one after the other."""
    words, _work = in_memory(needed, arrays)
    scratch = np.empty(SCRATCH + 64, np.uint8)
    scratch_at = scratch.ctypes.data + -scratch.ctypes.data % 64
    kernels = addresses(launch.kernel for launch in needed.launches)
    for launch, arguments, kernel in zip(needed.launches, words, kernels, strict=True):
        for thread in range(threads):
            below, above = (launch.units * number // threads for number in (thread, thread + 1))
            if below < above:
                SIGNATURE(kernel)(arguments.ctypes.data, below, above, scratch_at)


def multiply(left, right, threads: int = 1, layout: str = "rows", **options) -> np.ndarray:
    """The product in a fresh array with that layout, whose surroundings must stay as they are."""
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    m, k = left.shape[-2:]
    n = right.shape[-1]
    room = np.full((*batch, m + 2, n + 3), SENTINEL, left.dtype)
    if layout == "columns":
        room = np.full((*batch, n + 3, m + 2), SENTINEL, left.dtype).swapaxes(-1, -2)
    elif layout == "spread":
        room = np.full((*batch, m + 2, n + 3, 2), SENTINEL, left.dtype)[..., 0]
    place = room[..., 1 : m + 1, 1 : n + 1]
    needed = gemm.product(
        batch, m, n, k, left.dtype,
        *(strides(array, batch) for array in (left, right, place)),
        threads=threads, **options,
    )  # fmt: skip
    run(needed, {"left": left, "right": right, "place": place}, threads)
    outside = np.ones(room.shape, bool)
    outside[..., 1 : m + 1, 1 : n + 1] = False
    assert (room[outside] == SENTINEL).all()
    return place


def check(left, right, threads: int = 1, **options) -> None:
    found = multiply(left, right, threads, **options)
    expected = left.astype(np.float64) @ right.astype(np.float64)
    size = np.abs(left.astype(np.float64)) @ np.abs(right.astype(np.float64))
    tolerance = (4 + left.shape[-1] ** 0.5) * np.finfo(left.dtype).eps
    assert (np.abs(found - expected) <= tolerance * size).all()


SHAPES = [(1, 2, 10), (2, 70, 9), (5, 33, 19), (13, 48, 70), (64, 10, 128), (70, 130, 33)]


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_all_layouts(left, right):
    for m, n, k in SHAPES:
        check(matrix((m, k), left), matrix((k, n), right, seed=1), threads=2)


@pytest.mark.parametrize("m,n,k", [(37, 50, 1100), (3, 20, 700), (64, 16, 2048)])
@pytest.mark.parametrize("left,right", [("rows", "columns"), ("columns", "rows")])
def test_long_sums(m, n, k, left, right):
    check(matrix((m, k), left), matrix((k, n), right, seed=1), threads=2)


@pytest.mark.parametrize("layout", ["columns", "spread"])
def test_result_layouts(layout):
    for m, n, k in ((1, 9, 4), (9, 1, 20), (20, 30, 40)):
        check(matrix((m, k), "rows"), matrix((k, n), "rows", seed=1), layout=layout)


def test_every_end_of_packed_strips():
    """Neighbouring rows are copied by vectors that reach beyond a strip; behind the last, nothing may be read."""
    for m, k in product(range(30, 43), (137, 144, 600)):
        check(guarded((m, k), "columns", True), matrix((k, 40), "rows", seed=1), threads=2)


def test_every_small_size():
    sizes = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
    for m, n, k in product(sizes, (1, 7, 8, 9, 16, 31), (1, 3, 8)):
        check(matrix((m, k), "rows"), matrix((k, n), "columns", seed=1))


def test_nothing_to_sum_and_nothing_to_write():
    assert (multiply(np.ones((5, 0), np.float32), np.ones((0, 20), np.float32)) == 0).all()
    for shape in ((0, 4, 3), (4, 0, 3)):
        m, n, k = shape
        assert gemm.product(1, m, n, k, "float32", (0, k, 1), (0, n, 1), (0, n, 1), threads=2).launches == []
    assert gemm.product(0, 2, 2, 2, "float32", (4, 2, 1), (4, 2, 1), (4, 2, 1), threads=2).launches == []


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_stacks(kind):
    heads = matrix((3, 20, 4, 24), "rows", kind).swapaxes(
        1, 2
    )  # two dimensions of the batch that do not merge
    check(heads, matrix((4, 24, 11), "rows", kind, 1), threads=3)
    check(heads, matrix((4, 3, 24, 11), "columns", kind, 1).swapaxes(0, 1), threads=3)
    check(matrix((5, 7, 24), "rows", kind), matrix((24, 9), "columns", kind, 1), threads=2)  # is one product
    check(matrix((7, 24), "rows", kind), matrix((5, 24, 9), "rows", kind, 1), threads=2)
    check(matrix((5, 33, 600), "columns", kind), matrix((5, 600, 20), "rows", kind, 1), threads=2)


def test_double_precision():
    for left, right in product(LAYOUTS[:2], repeat=2):
        for m, n, k in ((1, 5, 13), (13, 21, 30), (33, 40, 600)):
            check(matrix((m, k), left, "float64"), matrix((k, n), right, "float64", 1), threads=2)


@pytest.mark.parametrize("threads", [1, 2, 8, 64])
def test_shares_of_threads(threads):
    for m, n, k in ((1, 200, 30), (32, 130, 40), (300, 20, 40), (64, 64, 40)):
        left, right = matrix((m, k), "rows"), matrix((k, n), "columns", seed=1)
        check(left, right, threads)
        needed = gemm.product((), m, n, k, "float32", (k, 1), (1, k), (n, 1), threads=threads)
        assert needed.launches[-1].units >= min(threads, 2)


def test_products_share_a_packed_operand():
    right, place = matrix((40, 50), "columns"), np.empty((7, 50), np.float32)
    both = [
        gemm.product((), m, 50, 40, "float32", (40, 1), (1, 40), (50, 1), threads=2, pack_first=True)
        for m in (7, 9)
    ]
    assert both[0].launches[0] == both[1].launches[0]
    assert both[0].work == both[1].work
    left = matrix((7, 40), "rows", seed=1)
    run(both[0], {"left": left, "right": right, "place": place}, 2)
    np.testing.assert_allclose(place, left @ right, rtol=1e-4, atol=1e-4)


def test_by_a_team_of_threads():
    left, right = matrix((200, 700), "columns"), matrix((700, 90), "columns", seed=1)
    place = np.empty((200, 90), np.float32)
    team = Team(3)
    needed = gemm.product((), 200, 90, 700, "float32", (1, 200), (1, 700), (90, 1), threads=3)
    words, _work = in_memory(needed, {"left": left, "right": right, "place": place})
    codes = addresses(launch.kernel for launch in needed.launches)
    rows = [[code, w.ctypes.data, s.units, WAIT] for code, w, s in zip(codes, words, needed.launches)]
    records = np.array(rows * 3, np.int64).reshape(-1, RECORD)
    team.run(records.ctypes.data, len(records), 3)
    np.testing.assert_allclose(place, left @ right, rtol=1e-3, atol=1e-3)


def rectified_with_bias(first: int):
    """Adds relu(result + bias of the column) to what lies at the result's place."""

    def finish(code, value, batch, row, column, width):
        def word(number, type):
            place = code.at(PARAMETERS[0], code.integer(first + number), "i64")
            return code.load(place, type)

        offset = code.add(code.mul(row, word(2, "i64")), column)
        for index in batch:
            offset = code.add(offset, code.mul(index, word(3, "i64")))
        place = code.at(word(1, "ptr"), offset, "float")
        bias = code.load(code.at(word(0, "ptr"), column, "float"), vector("float", width))
        moved = code.add(value, bias)
        shown = code.select(
            code.compare("ogt", moved, code.const(0, moved.type)), moved, code.const(0, moved.type)
        )
        code.store(code.add(code.load(place, moved.type), shown), place)

    return finish


@pytest.mark.parametrize("m,n,k", [(1, 10, 20), (20, 37, 24), (40, 1, 16), (20, 33, 1200), (2, 16, 8)])
@pytest.mark.parametrize("right", ["rows", "columns"])
def test_finish(m, n, k, right):
    left, other = matrix((3, m, k), "rows"), matrix((3, k, n), right, seed=1)
    bias, place = matrix((1, n), "rows", seed=2)[0], matrix((3, m, n), "rows", seed=3)
    expected = place + np.maximum(left @ other + bias, 0)
    needed = gemm.product(
        3, m, n, k, "float32", strides(left, (3,)), strides(other, (3,)), (m * n, n, 1), threads=2,
        epilogue=rectified_with_bias, epilogue_key="test", extra_words=[("bias", 0), ("place", 0), n, m * n],
    )  # fmt: skip
    run(needed, {"left": left, "right": other, "place": place, "bias": bias}, 2)
    np.testing.assert_allclose(place, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lanes,registers", [(16, 32), (4, 32), (4, 16)])
def test_other_processors(lanes, registers, monkeypatch):
    """Vectors of other widths: LLVM splits or widens them here, the results stay right."""
    monkeypatch.setattr(gemm, "lanes", lambda: lanes)
    monkeypatch.setattr(gemm, "registers", lambda: registers)
    gemm.choose.cache_clear()
    try:
        for left, right in (("rows", "columns"), ("columns", "rows")):
            for m, n, k in ((1, 30, 21), (37, 50, 70), (20, 30, 600)):
                check(matrix((m, k), left), matrix((k, n), right, seed=1), threads=2)
        check(matrix((9, 20), "rows", "float64"), matrix((20, 11), "columns", "float64", 1))
    finally:
        gemm.choose.cache_clear()


def guarded(shape: tuple[int, int], layout: str, at_end: bool) -> np.ndarray:
    """A matrix that ends with a page, or begins with one; the neighbouring pages cannot be read."""
    page = mmap.PAGESIZE
    size = shape[0] * shape[1] * 4
    pages = -(-size // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    whole = np.frombuffer(memory, np.uint8)
    protect = ctypes.CDLL(None).mprotect
    for place in (0, (pages + 1) * page):
        assert protect(ctypes.c_void_p(whole.ctypes.data + place), page, 0) == 0
    start = page + pages * page - size if at_end else page
    array = whole[start : start + size].view(np.float32)
    array[:] = np.random.default_rng(0).standard_normal(array.size)
    return array.reshape(shape[::-1]).T if layout == "columns" else array.reshape(shape)


@pytest.mark.parametrize("at_end", [True, False])
def test_reads_nothing_beside_the_operands(at_end):
    for left, right in product(("rows", "columns"), repeat=2):
        for m, n, k in ((1, 3, 5), (7, 19, 21), (64, 10, 130), (47, 33, 600)):
            check(guarded((m, k), left, at_end), guarded((k, n), right, at_end))
