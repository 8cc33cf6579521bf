"""When memory runs out, the error says what was asked for and which micro-batch would fit."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from cleargrad.core import shortage

GIB = 2**30


def test_the_micro_batch_that_fits() -> None:
    text = shortage.advice(asked=4 * GIB, free=2 * GIB, batch=64)
    assert "micro-batch of about 16 would fit instead of 64" in text
    assert "over 4 micro-batches" in text
    assert "divided by 4" in text


def test_at_least_two_parts_and_never_more_than_there_are_examples() -> None:
    assert "about 4 would fit instead of 8" in shortage.advice(asked=GIB, free=3 * GIB, batch=8)
    assert "not even a batch of one" in shortage.advice(asked=64 * GIB, free=GIB, batch=8)
    assert "make the batch smaller" in shortage.advice(asked=None, free=GIB, batch=8)


def test_what_numpy_says_is_understood() -> None:
    assert shortage.bytes_asked("Unable to allocate 3.50 GiB for an array") == 3.5 * GIB
    assert shortage.bytes_asked("Unable to allocate 100 bytes for") == 100
    assert shortage.bytes_asked("no") is None
    assert shortage.readable(3 * GIB) == "3 GiB"


OPS = {
    "mul": "x * torch.zeros(64, 1000, 1000)",
    "exp": "torch.exp(x.expand(64, 1000, 1000))",
    "matmul": "torch.zeros(64, 1).reshape(64, 1) @ torch.zeros(1, 1).expand(1, 10_000_000)",
    "compiled": "step(x)",
}


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="a shortage is made by RLIMIT_AS, which only Linux honours"
)
@pytest.mark.parametrize("op", OPS)
def test_ops_that_run_out_of_memory_say_so_in_our_words(op: str) -> None:
    program = f"""
        import resource
        import cleargrad as torch
        import numpy as np

        x = torch.zeros(64, 1, 1)
        x * x, torch.exp(x)
        step = torch.compile(lambda x: torch.exp(x.expand(64, 1000, 1000)))
        held = [step(x) for _ in range(3)]
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + 2**26, size + 2**26))
        taken = []  # what the allocator has kept
        try:
            while True:
                taken.append(np.empty(2**22, np.uint8))
        except MemoryError:
            del taken[-8:]
        try:
            {OPS[op]}
        except RuntimeError as error:
            print(error)
        """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert "not enough memory" in done.stdout or "which is not available" in done.stdout, done.stderr
