"""Convolutions in Triton: values by its interpreter, and ResNet-18's shapes as machine code for a GPU."""

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
from cleargrad.devices.cuda.tiled import KERNELS
from cleargrad.devices.cuda.triton_code import Layout

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or find_spec("torch") is None,
    reason="needs Triton, and PyTorch to compare with",
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
    return dict(
        zip(words, SHAPES[name]), op=op, **{"kind": "float32", "bias": False, "spread": False, **options}
    )


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
        [sys.executable, "-m", "tests.cuda.interpreted"], input=json.dumps([*CASES.values()]),
        env=environment, cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_values(found: dict[str, dict[str, Any]], name: str) -> None:
    result = found[name]
    assert not result["none"] and not result["nan"]
    assert result["error"] < result["tolerance"]


# Machine code ----------------------------------------------------------------------------------------------

#                      inputs, outputs, size, kernel, stride, padding
RESNET: dict[str, tuple] = {
    "first": (3, 64, 224, 7, 2, 3),
    "56": (64, 64, 56, 3, 1, 1),
    "56 to 28": (64, 128, 56, 3, 2, 1),
    "56 to 28, one by one": (64, 128, 56, 1, 2, 0),
    "14": (256, 256, 14, 3, 1, 1),
    "7": (512, 512, 7, 3, 1, 1),
}
SHARED = 227 << 10  # bytes that a program may have


def dense(shape: tuple[int, ...], dtype: str = "bfloat16") -> Layout:
    strides = [1]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    return Layout(shape, tuple(strides), dtype)


def layouts(name: str, op: str, dtype: str) -> tuple[list, list, dict[str, Any]]:
    """A layer's call, of 64 images."""
    inputs, outputs, size, kernel, stride, padding = RESNET[name]
    count = (size + 2 * padding - kernel) // stride + 1
    x, w = dense((64, inputs, size, size), dtype), dense((outputs, inputs, kernel, kernel), dtype)
    y = dense((64, outputs, count, count), dtype)
    attrs = {
        "stride": (stride,) * 2,
        "padding": (padding,) * 2,
        "dilation": (1, 1),
        "groups": 1,
        "tf32": False,
    }
    if op == "convolution":
        return [x, w, None], [y], attrs
    if op == "convolution_adjoint_input":
        return [y, w, None], [x], attrs | {"size": (size, size)}
    return [y, x], [w], attrs | {"kernel": (kernel, kernel)}


def tool(*words: str, image: bytes, folder: Path) -> str:
    import triton

    path = folder / "kernel.cubin"
    path.write_bytes(image)
    program = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    return subprocess.run([program, *words, path], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", RESNET)
def test_machine_code(name: str, op: str, tmp_path: Path) -> None:
    written = KERNELS[op](*layouts(name, op, "bfloat16"))
    assert written is not None and written.work > 0
    plan = written.plan(90)
    for start in plan.starts:
        assert start.binary.shared <= SHARED
        assert all(at % 256 == 0 for place, at in start.pointers if place == "work")
        facts = tool("--dump-resource-usage", image=start.binary.image, folder=tmp_path)
        assert "STACK:0" in facts, f"registers are spilled: {facts}"
        if start.binary.entry.startswith("multiply"):
            assert "HGMMA" in tool("-sass", image=start.binary.image, folder=tmp_path), "without tensor cores"


@pytest.mark.parametrize("tf32", [False, True])
def test_machine_code_of_float32(tf32: bool, tmp_path: Path) -> None:
    for op in OPS:
        operands, results, attrs = layouts("14", op, "float32")
        written = KERNELS[op](operands, results, attrs | {"tf32": tf32})
        assert written is not None
        for start in written.plan(90).starts:
            if start.binary.entry.startswith("multiply"):
                text = tool("-sass", image=start.binary.image, folder=tmp_path)
                assert ("HGMMA" in text) == tf32 and "HMMA" not in text


def test_what_has_no_plan() -> None:
    x, w, y = dense((2, 16, 8, 8)), dense((16, 16, 3, 3)), dense((2, 16, 8, 8))
    attrs: dict[str, Any] = {
        "stride": (1, 1),
        "padding": (1, 1),
        "dilation": (1, 1),
        "groups": 1,
        "tf32": False,
    }

    def plan(operands: list, results: list, **changes: Any) -> Any:
        return convolution.convolution(operands, results, attrs | changes)

    assert plan([x, w, None], [y]) is not None
    assert plan([x, dense((16, 8, 3, 3)), None], [y], groups=2) is None
    assert plan([dense((0, 16, 8, 8)), w, None], [dense((0, 16, 8, 8))]) is None
    for dtype in ("float64", "int64"):
        assert plan([dense(each.shape, dtype) for each in (x, w)] + [None], [dense(y.shape, dtype)]) is None
    image, kernel = dense((1, 2, 4, 4, 4)), dense((2, 2, 3, 3, 3))
    three: dict[str, Any] = dict.fromkeys(("stride", "padding", "dilation"), (1, 1, 1))
    assert plan([image, kernel, None], [image], **three) is None
    both: dict[str, Any] = attrs | {"stride": (2, 2), "dilation": (2, 2), "size": (8, 8)}
    assert convolution.convolution_adjoint_input([dense((2, 16, 3, 3)), w, None], [x], both) is None
