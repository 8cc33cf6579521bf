"""Convolutions in Triton: values by its interpreter, and that ResNet-18's shapes compile into what fits a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cleargrad.devices.cuda import convolution
from cleargrad.devices.cuda.triton_code import Layout

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or find_spec("torch") is None, reason="needs Triton, and PyTorch to compare with"
)

OPS = ("convolution", "convolution_adjoint_input", "convolution_adjoint_weight")
#             batch, inputs, outputs, size, kernel, stride, padding, dilation
SHAPES: dict[str, tuple] = {
    "three by three": (2, 16, 16, (6, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one by one": (2, 33, 8, (5, 3), (1, 1), (1, 1), (0, 0), (1, 1)),
    "one by one, stride 2": (2, 16, 24, (6, 7), (1, 1), (2, 2), (0, 0), (1, 1)),
    "stride 2": (2, 17, 9, (7, 8), (3, 3), (2, 2), (1, 1), (1, 1)),
    "stride 3": (1, 16, 3, (11, 10), (5, 3), (3, 3), (2, 0), (1, 1)),
    "first layer": (2, 3, 70, (17, 19), (7, 7), (2, 2), (3, 3), (1, 1)),
    "few channels": (2, 3, 8, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one channel": (1, 1, 1, (6, 6), (5, 5), (1, 1), (2, 2), (1, 1)),
    "eight channels": (1, 8, 8, (6, 9), (3, 2), (1, 3), (0, 1), (1, 1)),
    "even": (2, 16, 5, (6, 6), (2, 4), (2, 1), (1, 2), (1, 1)),
    "dilated": (1, 16, 8, (9, 8), (3, 3), (1, 1), (2, 1), (2, 3)),
    "dilated, stride 2": (1, 16, 8, (11, 12), (3, 3), (2, 2), (3, 0), (3, 1)),
    "wide padding": (1, 16, 8, (4, 4), (3, 3), (1, 2), (4, 5), (1, 1)),
    "many channels": (1, 65, 130, (4, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    "stride beyond the kernel": (1, 16, 8, (9, 8), (2, 1), (4, 3), (0, 0), (1, 1)),
    "a line": (2, 16, 8, (13,), (3,), (2,), (1,), (1,)),
    "a line of one channel": (2, 1, 8, (13,), (4,), (1,), (2,), (1,)),
}


def case(name: str, op: str, **options: Any) -> dict[str, Any]:
    words = ("batch", "inputs", "outputs", "size", "kernel", "stride", "padding", "dilation")
    return dict(zip(words, SHAPES[name]), op=op, **{"kind": "float32", "bias": False, "spread": False, **options})


CASES = {f"{op}: {name}": case(name, op, bias=name != "even") for op in OPS for name in SHAPES}
for each in ("three by three", "first layer", "stride 2", "many channels"):
    CASES |= {f"{op}: {each}, bfloat16": case(each, op, kind="bfloat16") for op in OPS}
CASES |= {f"{op}: float16, spread": case("stride 2", op, kind="float16", spread=True) for op in OPS}
CASES |= {f"{op}: few, spread": case("few channels", op, spread=True) for op in OPS}


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    """What every case came to, computed by one process."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.cuda.interpreted"], input=json.dumps([*CASES.values()]), env=environment,
        cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_values(found: dict[str, dict[str, Any]], name: str) -> None:
    result = found[name]
    assert not result["none"] and not result["nan"]
    assert result["error"] < result["tolerance"]
