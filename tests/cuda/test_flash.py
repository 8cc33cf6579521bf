"""Attention's kernels in Triton: what they compute, by Triton's interpreter, and what they compile to for Hopper.

Neither needs a GPU.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

import pytest

from cleargrad.devices.cuda.flash import attention, attention_gradient
from cleargrad.devices.cuda.triton_code import Binary, Layout

pytest.importorskip("triton", reason="its kernels are written in Triton, which is for Linux")

SHARED = 227 * 1024  # bytes that a program on Hopper may have
CONFIGURATIONS = [  # dtype, width, causal, length, mask
    ("bfloat16", 64, True, 1024, None),
    ("float16", 128, True, 1000, None),
    ("bfloat16", 40, False, 1024, "bool"),
    ("bfloat16", 128, True, 1024, "float32"),
]


def whole(shape: Sequence[int], dtype: str) -> Layout:
    strides = [*accumulate(reversed((*shape[1:], 1)), mul)][::-1]
    return Layout(tuple(shape), tuple(strides), dtype)


def plans(dtype: str, width: int, causal: bool, length: int, mask: str | None) -> list[Binary]:
    """Machine code for the way there and back, for q, k and v as a model's projection gives them."""
    batch, heads = 4, 3
    joined = 3 * heads * width
    x = Layout((batch, heads, length, width), (length * joined, width, joined, 1), dtype)
    seen = whole((1, 1, length, length), mask) if mask else None
    out, rows = whole(x.shape, dtype), whole((batch, heads, length, 1), "float32")
    attrs = {"scale": width**-0.5, "causal": causal}
    there = attention([x, x, x, seen], [out, rows, rows], attrs)
    grads = [whole(x.shape, "float32")] * 3
    back = attention_gradient([out, x, x, x, seen, out, rows, rows], grads, attrs)
    assert there is not None and back is not None
    starts = [*there.plan(90).starts, *back.plan(90).starts]
    assert [place for _, place in starts[0].pointers] == [0, 1, 2, *([3] if mask else []), 0, 1, 2]
    assert back.work >= 2 * 4 * batch * heads * length
    return [start.binary for start in starts]


def tool(name: str, *words: Any) -> str:
    """What a tool in Triton's package says of a file."""
    import triton

    path = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    return subprocess.run([path, *words], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_machine_code_for_hopper(configuration, tmp_path):
    """It fits, keeps its values in registers, and multiplies by groups of warps, one product beside another."""
    file = tmp_path / "code.cubin"
    for binary in plans(*configuration):
        assert binary.shared <= SHARED
        file.write_bytes(binary.image)
        usage = tool("cuobjdump", "--dump-resource-usage", file)
        assert set(re.findall(r"(?:STACK|LOCAL):(\d+)", usage)) == {"0"}
        text = tool("nvdisasm", "-c", file)
        if binary.entry != "prepare":
            products = text.count("HGMMA")
            assert products and "HMMA." not in text.replace("HGMMA.", "")
            # Were every product waited for by itself, there would be as many waits.
            assert text.count("WARPGROUP.DEPBAR") < products / 2


def test_the_same_as_the_formula():
    """Triton's interpreter is chosen when Triton is imported, so this is a process of its own."""
    pytest.importorskip("torch")
    program = [sys.executable, "-W", "ignore", "-m", "tests.cuda.flash_by_interpreter"]
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(program, capture_output=True, text=True, cwd=root, env=environment)
    assert done.returncode == 0, done.stderr
    right, several = re.findall(r"\d+", done.stdout.splitlines()[-1])
    assert right == several, done.stdout


def layouts(dtype: str = "bfloat16", lead: tuple[int, ...] = (2, 3), width: int = 64, depth: int = 64) -> Any:
    q, k, v = (whole((*lead, 70, w), dtype) for w in (width, width, depth))
    return [q, k, v, None], [whole((*lead, 70, depth), dtype), *[whole((*lead, 70, 1), "float32")] * 2]


@pytest.mark.parametrize(
    "facts",
    [
        {"dtype": "float64"},
        {"width": 129},
        {"depth": 129},
        {"lead": (2, 3, 4)},
        {"lead": (0, 3)},
    ],
)
def test_what_is_left_to_other_parts(facts):
    operands, results = layouts(**facts)
    assert attention(operands, results, {"scale": 0.1, "causal": True}) is None


def test_masks_that_are_left_to_other_parts():
    operands, results = layouts()
    for mask in (whole((70, 70), "int64"), whole((70, 69), "bool"), whole((1, 1, 1, 70, 70), "bool")):
        assert attention([*operands[:3], mask], results, {"scale": 0.1, "causal": False}) is None
    assert attention(operands, results, {"scale": float("nan"), "causal": False}) is None
