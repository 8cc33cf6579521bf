"""Calls that have kernels of tiles: what programs ask the GPU for, by a transcript."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

import cleargrad as cg
from cleargrad.compile import beside
from cleargrad.compile.script import waiting
from cleargrad.core import device as devices
from cleargrad.core.mode import settle
from cleargrad.devices.cuda.driver import Cuda
from cleargrad.devices.cuda.tiled import ALIGNED
from cleargrad.devices.cuda.triton_code import Binary
from tests.cuda.emulated import Emulated

pytest.importorskip("triton", reason="its kernels are written in Triton, which is for Linux")
attention = cg.nn.functional.scaled_dot_product_attention


class Transcript(Emulated):
    """A GPU that writes down which kernels of tiles it was to run, and on which memory."""

    tiled = 90

    def load_binary(self, name: str, binary: Binary) -> None:
        self.functions[name] = binary

    def launch_binary(self, name: str, grid: tuple, binary: Binary, parameters: int) -> None:
        self.launches.append(binary.entry)
        count = 0  # how many there are is the kernel's affair; zeros end them
        cells = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        while cells[count] and (word := ctypes.c_int64.from_address(cells[count]).value):
            assert self.is_there(word) and word % ALIGNED == 0
            count += 1
        assert count >= 3 and all(n > 0 for n in grid)


@pytest.fixture
def transcript(cuda: Cuda, gpu: Emulated, monkeypatch: pytest.MonkeyPatch) -> Iterator[Transcript]:
    runtime = Transcript()
    runtime.functions, runtime.sources = dict(gpu.functions), gpu.sources
    monkeypatch.setitem(devices.drivers, "cuda", Cuda(runtime))
    yield runtime


def heads(kind: cg.dtype, first: int = 0) -> list[cg.Tensor]:
    """Queries, keys and values as parts of one tensor."""
    x = cg.ones(2, 24, 3 * 64 + first, device="cuda", dtype=kind)[:, :, first:].requires_grad_()
    return [part.view(2, 24, 2, 32).transpose(1, 2) for part in x.split(64, dim=2)]


@pytest.mark.parametrize("kind", [cg.bfloat16, cg.float16, cg.float32])
@pytest.mark.parametrize("first", [0, 1])
def test_attention_is_one_kernel(transcript: Transcript, kind: cg.dtype, first: int) -> None:
    out = attention(*heads(kind, first), is_causal=True)
    out.sum().backward()
    settle()  # calls may wait
    kernels = ["attend", "prepare", "gradient_of_keys", "gradient_of_queries"]
    assert [name for name in transcript.launches if name in kernels] == kernels


def test_attention_in_float64_is_made_of_parts(transcript: Transcript) -> None:
    out = attention(*heads(cg.float64))
    assert "attend" not in transcript.launches
    cg.testing.assert_close(out.detach().cpu(), cg.ones(2, 2, 24, 32, dtype=cg.float64))


def test_programs_have_them_too(transcript: Transcript) -> None:
    with waiting() as switch:
        for _ in range(5):
            attention(*heads(cg.bfloat16)).sum().backward()
            switch.waiter.flush()
            beside.wait()
    programs = [end.program for end in switch.waiter.tree.endings if end.program is not None]
    assert [program.hosted for program in programs] == [[]]
    assert transcript.launches.count("attend") >= 3
