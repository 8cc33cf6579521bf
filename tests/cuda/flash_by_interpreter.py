"""Attention's kernels on the CPU, by Triton's interpreter, against the formula in float64: cases come from CASES.

Triton chooses its interpreter when it is imported, so this is a program of its own, with TRITON_INTERPRET=1. It
prints a line for every case that is wrong, and how many were right. Read next: tests/cuda/test_flash.py.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch

from cleargrad.devices.cuda.flash import attention, attention_gradient
from cleargrad.devices.cuda.triton_code import Layout, Written

BOUNDS = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@dataclass
class Case:
    """One attention: how long, how wide, in what memory, and what is hidden."""

    lead: tuple[int, ...]
    queries: int
    keys: int
    width: int
    dtype: str = "float32"
    causal: bool = False
    mask: str = ""
    depth: int = 0  # of values, where it is another width
    memory: str = (
        "own"  # or "joined": as a model's projection gives them; "turned"; "grouped": heads share keys
    )
    scale: float | None = None
    g_dtype: str = ""


CASES = [
    Case((2, 2), 130, 130, 64, "bfloat16", True, memory="joined"),
    Case((1, 2), 256, 256, 64, "float16", True, memory="joined"),
    Case((1, 2), 300, 300, 16, "bfloat16", True),
    Case((1, 2), 128, 128, 64, "float16"),
    Case((1, 1), 200, 77, 128, "bfloat16", True),
    Case((2,), 77, 200, 128, "float16", True),
    Case((), 70, 150, 40, "float16"),
    Case((3,), 65, 129, 40, "bfloat16", True, memory="turned"),
    Case((2, 4), 33, 40, 64, "float16", memory="grouped"),
    Case((1, 4), 70, 70, 32, "bfloat16", True, "bool rows", memory="grouped"),
    Case((2, 2), 70, 140, 64, "float16", mask="bool"),
    Case((2, 2), 140, 70, 64, "float16", mask="bool keys", depth=24),
    Case((2, 2), 66, 130, 64, "bfloat16", True, mask="added"),
    Case((2, 1), 66, 130, 64, "bfloat16", mask="added float32"),
    Case((2, 1), 66, 66, 16, "float16", mask="lowest"),
    Case((1, 2), 1, 1, 8, "float16", True),
    Case((2, 2), 1, 75, 64, "bfloat16"),
    Case((1, 2), 80, 80, 64, "bfloat16", scale=-0.3),
    Case((1, 1), 30, 30, 64, "float16", True, "bool", scale=0.0),
    Case((1, 2), 70, 70, 64, "bfloat16", True, g_dtype="float32"),
    Case((1, 2), 70, 70, 64, "float16", True, memory="joined", g_dtype="constant"),
    Case((2, 2), 64, 64, 64, causal=True, memory="joined"),
    Case((1, 2), 70, 45, 40, causal=True),
    Case((1, 1), 100, 100, 128, causal=True),
    Case((1, 2), 45, 70, 128, mask="bool rows"),
    Case((3,), 45, 70, 16, causal=True, mask="added", depth=33),
    Case((), 37, 33, 5, causal=True, memory="turned"),
    Case((1, 1), 40, 40, 64, mask="lowest"),
]


# Operands --------------------------------------------------------------------------------------------------


def drawn(case: Case) -> tuple[torch.Tensor, ...]:
    """g, q, k and v."""
    kind, depth = getattr(torch, case.dtype), case.depth or case.width
    q = torch.randn(*case.lead, case.queries, case.width).to(kind)
    k = torch.randn(*case.lead, case.keys, case.width).to(kind)
    v = torch.randn(*case.lead, case.keys, depth).to(kind)
    g = torch.randn(*case.lead, case.queries, depth).to(getattr(torch, case.g_dtype or case.dtype, kind))
    if case.g_dtype == "constant":
        g = torch.ones((), dtype=kind).expand(g.shape)
    if case.memory == "joined":
        batch, heads, length, width = q.shape
        joined = torch.randn(batch, length, 3 * heads * width).to(kind)
        q, k, v = (x.view(batch, length, heads, width).transpose(1, 2) for x in joined.chunk(3, -1))
    if case.memory == "turned":
        q, k, v, g = (x.transpose(-2, -1).contiguous().transpose(-2, -1) for x in (q, k, v, g))
    if case.memory == "grouped":
        k, v = (x[:, :1].expand(x.shape) for x in (k, v))
    return g, q, k, v


def mask_of(case: Case) -> torch.Tensor | None:
    """Every mask of booleans leaves some row without a key to see."""
    lead, size = case.lead, (case.queries, case.keys)
    if case.mask == "bool":
        seen = torch.rand(*lead, *size) < 0.5
        seen[..., case.queries // 2, :] = False
        return seen
    if case.mask == "bool rows":
        seen = torch.rand(*size) < 0.2
        seen[3] = False
        return seen
    if case.mask == "bool keys":
        seen = torch.rand(lead[0], 1, 1, case.keys) < 0.5
        seen[0] = False
        return seen
    if case.mask.startswith("added"):
        added = torch.randn(*lead[-1:], *size).to(getattr(torch, case.mask[6:] or case.dtype))
        added[..., 2, :] = -math.inf
        added[..., 1:] = added[..., 1:].masked_fill(torch.rand(added[..., 1:].shape) < 0.2, -math.inf)
        return added
    if case.mask == "lowest":  # as programs write that hide a key without hiding it
        kind = getattr(torch, case.dtype)
        added = torch.zeros(size, dtype=kind).masked_fill(torch.rand(size) < 0.5, torch.finfo(kind).min)
        added[5] = torch.finfo(kind).min
        return added
    return None


# What is expected ------------------------------------------------------------------------------------------


def expected(g: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool) -> list[torch.Tensor]:
    """out, peaks, totals, dq, dk and dv by the formula."""
    g, q, k, v = (x.double() for x in (g, q, k, v))
    scores = q @ k.mT * scale
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    if mask is not None and mask.dtype is torch.bool:
        scores = scores.masked_fill(~mask, -math.inf)
    elif mask is not None:  # float32 has little room for a score beside a low number
        scores = (scores.float() + mask.float()).double()
    peaks = scores.amax(-1, keepdim=True)
    peaks = peaks.masked_fill(peaks == -math.inf, 0)
    weights = (scores - peaks).exp()
    totals = weights.sum(-1, keepdim=True)
    totals = totals.masked_fill(totals == 0, math.inf)
    weights = weights / totals
    out = weights @ v
    slope = weights * (g @ v.mT - (g * out).sum(-1, keepdim=True)) * scale
    return [out, peaks, totals, slope @ k, slope.mT @ q, weights.mT @ g]


# Runs ------------------------------------------------------------------------------------------------------


def mend_interpreter() -> None:
    """What Triton 3.6's interpreter gets wrong: scalars as NumPy has them today, and products of bfloat16."""
    from triton.runtime import interpreter

    product, patch = interpreter.InterpreterBuilder.create_dot, interpreter._patch_lang_tensor

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar.name != "bf16":
            return handle
        bits = handle.data.astype(np.uint32) << 16  # kept as whole numbers of 16 bits
        return interpreter.TensorHandle(bits.view(np.float32), interpreter.tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *others: Any) -> Any:
        return product(self, widened(a), widened(b), *others)

    interpreter.InterpreterBuilder.create_dot = create_dot

    def patch_tensor(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patch_tensor


def layout(x: torch.Tensor | None) -> Layout | None:
    return None if x is None else Layout(tuple(x.shape), x.stride(), str(x.dtype).removeprefix("torch."))


def perform(written: Written, memory: dict[str, Any]) -> None:
    """Kernels one after the other; what lies between them begins as something that no kernel may rely on."""
    between = torch.full((written.work // 4,), math.nan)
    for run in written.kernels:
        pointers = {}
        for name, ((space, place), dtype) in run.pointers.items():
            found = between[place // 4 :] if space == "work" else memory[space][place]
            assert str(found.dtype) == f"torch.{dtype}"
            pointers[name] = found
        run.function[run.grid](**pointers, **run.constants)


def empty(shape: Any, dtype: str, turned: bool) -> torch.Tensor:
    """Memory for a result, in another order than usual where operands are in one too."""
    if turned:
        return torch.full(tuple(shape), math.nan, dtype=getattr(torch, dtype)).mT.contiguous().mT
    return torch.full(tuple(shape), math.nan, dtype=getattr(torch, dtype))


def results_of(case: Case, g: Any, q: Any, k: Any, v: Any, mask: Any, scale: float) -> list[torch.Tensor]:
    attrs = {"scale": scale, "causal": case.causal}
    rows, turned = q.shape[:-1], case.memory == "turned"
    there = [
        empty((*rows, v.shape[-1]), case.dtype, turned),
        *(empty((*rows, 1), "float32", False) for _ in "pt"),
    ]
    operands = [q, k, v, mask]
    written = attention([layout(x) for x in operands], [layout(x) for x in there], attrs)
    assert written is not None
    perform(written, {"operand": operands, "result": there})
    back = [empty(x.shape, "float32" if case.causal else case.dtype, turned) for x in (q, k, v)]
    operands = [g, q, k, v, mask, *there]
    written = attention_gradient([layout(x) for x in operands], [layout(x) for x in back], attrs)
    assert written is not None
    perform(written, {"operand": operands, "result": back})
    return [*there, *back]


def wrong(case: Case) -> list[str]:
    """Which results of a case are not what the formula says."""
    torch.manual_seed(1)
    g, q, k, v = drawn(case)
    mask = mask_of(case)
    scale = case.width**-0.5 if case.scale is None else case.scale
    found = results_of(case, g, q, k, v, mask, scale)
    ill = []
    formula = expected(g, q, k, v, mask, scale, case.causal)
    for name, x, y in zip(("out", "peaks", "totals", "dq", "dk", "dv"), found, formula):
        # Weights are rounded to the operands' dtype; what is kept of rows is not.
        rounded = name not in ("peaks", "totals") or case.mask == "lowest"
        bound = BOUNDS[case.dtype if rounded else "float32"]
        finite = y.isfinite()
        far = (x.double()[finite] - y[finite]).norm() / y[finite].norm().clamp_min(1e-3)
        if not far <= bound or not torch.equal(x[~finite].double(), y[~finite]):
            ill.append(f"{name} {float(far):.2g}")
    return ill


def main() -> None:
    chosen = CASES[int(sys.argv[1]) :] if len(sys.argv) > 1 else CASES
    right = 0
    for case in chosen:
        ill = wrong(case)
        right += not ill
        if ill:
            print(case, *ill)
    print(f"right: {right} of {len(chosen)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    mend_interpreter()
    main()
