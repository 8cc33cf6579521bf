"""Where the buffers of programs lie: apart when they live at the same time, and in memory that programs share."""

from __future__ import annotations

import random
import threading
import tracemalloc

import numpy as np
import pytest

import cleargrad as torch
from cleargrad.devices.cpu.programs import blocks
from cleargrad.devices.cpu.programs.program import Program
from cleargrad.ops.record import Recorder
from cleargrad.schedule.formulas import Buffer
from cleargrad.schedule.lifetimes import ALIGN, arena
from tests.bits import same_bits

SIZE = 700  # a square of such rows is more than programs keep to themselves


def buffer(number: int, size: int) -> Buffer:
    return Buffer(number, (size,), np.dtype(np.uint8), "inside", (1,))


@pytest.mark.parametrize("seed", range(20))
def test_buffers_that_live_at_the_same_time_lie_apart(seed: int) -> None:
    dice = random.Random(seed)
    spans = {}
    for number in range(dice.randrange(1, 60)):
        first = dice.randrange(30)
        spans[buffer(number, dice.choice((0, 1, 64, 65, 500, 4096)))] = (first, first + dice.randrange(8))
    offsets, total = arena(spans, [])
    assert offsets.keys() == spans.keys()
    for one, (begin, end) in spans.items():
        assert offsets[one] % ALIGN == 0 and offsets[one] + one.size <= total
        for other, (first, last) in spans.items():
            if one is not other and begin <= last and first <= end:
                low, high = sorted((one, other), key=offsets.__getitem__)
                assert offsets[low] + max(low.size, 1) <= offsets[high]


def test_the_lowest_gap_is_taken() -> None:
    spans = {buffer(0, 128): (0, 9), buffer(1, 128): (0, 3), buffer(2, 128): (0, 9), buffer(3, 64): (5, 9)}
    offsets, total = arena(spans, [])
    assert list(offsets.values()) == [0, 128, 256, 128] and total == 384


@pytest.fixture
def no_blocks(monkeypatch: pytest.MonkeyPatch) -> list[blocks.Block]:
    free: list[blocks.Block] = []
    monkeypatch.setattr(blocks, "_free", free)
    return free


def summed(x: torch.Tensor) -> torch.Tensor:
    y = x @ x
    return ((y @ x).relu() + y).sum(0)


def test_programs_run_in_one_block_that_grows(no_blocks: list[blocks.Block]) -> None:
    step = torch.compile(summed)
    sizes = [SIZE, SIZE + 1, SIZE // 2 + 200, 2 * SIZE, SIZE]
    squares = {size: torch.rand(size, size) / size for size in sizes}
    for size in sizes * 3:
        same_bits(step(squares[size]), summed(squares[size]))
        assert len(no_blocks) <= 1
    programs = [ending.program for ending in step.programs]
    assert len(programs) == 4 and all(program.block is None for program in programs)
    assert no_blocks[0].size >= max(program.size for program in programs) >= blocks.LARGE


def test_programs_of_different_threads_do_not_share(no_blocks: list[blocks.Block]) -> None:
    first, second = blocks.borrow(1000), blocks.borrow(500)
    assert first is not second and first.base % ALIGN == 0
    blocks.give_back(first)
    assert blocks.borrow(900) is first
    blocks.give_back(first)
    assert blocks.borrow(5000) is not first and not no_blocks  # too small: it is given up

    steps = [torch.compile(summed) for _ in range(3)]
    square = torch.rand(SIZE, SIZE) / SIZE
    expected = summed(square)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(8):
            if not torch.equal(steps[number](square), expected):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and 1 <= len(no_blocks) <= len(steps)


def test_recording_takes_no_memory() -> None:
    """What stands for values lies in pages that nobody touches, not among arrays, which it would drive apart."""
    x = torch.ones(256, 1024)

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            x = x.sin() * 2
        return x

    tracemalloc.start()
    try:
        with Recorder() as recorder:
            recorder.finish([chain(recorder.input(x))])
        assert tracemalloc.get_traced_memory()[1] < 3 * x.numpy().nbytes
    finally:
        tracemalloc.stop()


def test_tensors_with_other_memory_are_found_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives a program's tensors other memory tells it so, and if that fails, at the next run."""
    weight = torch.nn.Parameter(torch.ones(5000))

    @torch.compile
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return (x * weight).detach()

    x = torch.arange(5000.0)
    for _ in range(5):
        assert scaled(x)[7].item() == 7
    weight.data = torch.full((5000,), 3.0)
    with monkeypatch.context() as patch:
        patch.setattr(Program, "bind", fail)
        with pytest.raises(RuntimeError, match="not enough memory"):
            scaled(x)[7].item()
    assert scaled(x)[7].item() == 21
    assert len(scaled.programs) == 1


def fail(program: Program) -> None:
    raise MemoryError
