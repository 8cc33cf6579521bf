"""Runs the kernels of convolutions by Triton's interpreter, and PyTorch in float64 to compare with.

This is a program of its own, since the interpreter is chosen before Triton is imported: cases come in as
JSON, and for each of them the largest error, relative to the largest value, and the tolerance for it go
out.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from cleargrad.devices.cuda import convolution
from cleargrad.devices.cuda.triton_code import Layout

CALLS = {
    "convolution": convolution.convolution,
    "convolution_adjoint_input": convolution.convolution_adjoint_input,
    "convolution_adjoint_weight": convolution.convolution_adjoint_weight,
}
TOLERANCE = {"float32": 1e-5, "bfloat16": 8e-3, "float16": 1e-3}

given_tensor = interpreter._patch_lang_tensor


def patched(tensor: Any, scope: Any) -> None:
    """Newer NumPy makes no number of an array of one element, which bounds of loops are."""
    given_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def wide(x: Any) -> Any:
    """bfloat16, which lies in the interpreter as whole numbers, as float32."""
    if x.dtype.scalar != tl.bfloat16:
        return x
    return interpreter.TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)


def dot(builder: Any, a: Any, b: Any, *others: Any) -> Any:
    return given_dot(builder, wide(a), wide(b), *others)


given_dot = interpreter.InterpreterBuilder.create_dot
interpreter.InterpreterBuilder.create_dot = dot
interpreter._patch_lang_tensor = patched


def layout(x: torch.Tensor | None) -> Layout | None:
    return None if x is None else Layout(tuple(x.shape), x.stride(), str(x.dtype).removeprefix("torch."))


def made(op: str, operands: list, like: torch.Tensor, attrs: dict[str, Any]) -> torch.Tensor | None:
    """What the kernels of an op give, in memory that is full of NaN."""
    out = torch.full_like(like, float("nan"), dtype=operands[0].dtype)
    calls = CALLS[op]([*map(layout, operands)], [layout(out)], attrs)
    if calls is None:
        return None
    work = torch.full((calls.work,), 255, dtype=torch.uint8)
    for call in calls.kernels:
        given = []
        for (place, at), dtype in call.pointers.values():
            memory = {"operand": lambda at=at: operands[at], "result": lambda at=at: out}.get(place)
            given.append(memory() if memory else work[at:].view(getattr(torch, dtype)))
        call.function[call.grid](*given, **call.constants)
    return out


def spread(x: torch.Tensor) -> torch.Tensor:
    """The same values with channels last, and gaps."""
    room = torch.zeros((x.shape[0], *[n + 1 for n in x.shape[2:]], 2 * x.shape[1]), dtype=x.dtype)
    view = room[(slice(None), *[slice(0, n) for n in x.shape[2:]], slice(None, None, 2))].movedim(-1, 1)
    return view.copy_(x)


def run(case: dict[str, Any]) -> dict[str, Any]:
    op, kind, dtype = case["op"], case["kind"], getattr(torch, case["kind"])
    torch.manual_seed(0)
    rank = len(case["kernel"])
    settings = {name: tuple(case[name]) for name in ("stride", "padding", "dilation")}
    x = torch.randn(case["batch"], case["inputs"], *case["size"]).to(dtype)
    w = torch.randn(case["outputs"], case["inputs"], *case["kernel"]).to(dtype)
    bias = torch.randn(case["outputs"]).to(dtype) if case["bias"] else None
    wide = [None if each is None else each.double() for each in (x, w, bias)]
    convolved = getattr(torch.nn.functional, f"conv{rank}d")
    expected = convolved(*wide, **settings)
    g = torch.randn(expected.shape).to(dtype)
    attrs: dict[str, Any] = {**settings, "groups": 1, "tf32": False}
    lay = spread if case["spread"] else lambda each: each
    gradient = getattr(torch.nn.grad, f"conv{rank}d_input"), getattr(torch.nn.grad, f"conv{rank}d_weight")
    if op == "convolution":
        operands = [lay(x), lay(w), bias]
    elif op == "convolution_adjoint_input":
        back = torch.randn(case["inputs"]).to(dtype) if case["bias"] else None
        operands, attrs["size"] = [lay(g), lay(w), back], tuple(x.shape[2:])
        expected = gradient[0](x.shape, wide[1], g.double(), **settings)
        expected = expected if back is None else expected + back.double().view(-1, *(1,) * rank)
    else:
        operands, attrs["kernel"] = [lay(g), lay(x)], tuple(w.shape[2:])
        expected = gradient[1](wide[0], w.shape, g.double(), **settings)
    found = made(op, operands, expected, attrs)
    if found is None:
        return {"none": True}
    error = (found.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-9)
    return {
        "none": False,
        "error": float(error),
        "tolerance": TOLERANCE[kind],
        "nan": bool(found.isnan().any()),
    }


if __name__ == "__main__":
    json.dump([run(case) for case in json.load(sys.stdin)], sys.stdout)
