"""Attention by machine code, on arrays: what single calls run, with the kernels of compiled programs.

Arrays are float32 or float64, (..., rows, width), with the same leading dimensions. Scores never lie in memory all
at once: devices/cpu/kernels/attention.py has the kernels. Read next: ops/attention.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray


def chosen(back: bool, facts: tuple, strides: tuple, threads: int) -> Any:
    from cleargrad.devices.cpu.kernels import attention

    choose: Callable = attention.gradient if back else attention.forward
    sizes = attention.AttentionSizes(*facts, strides=dict(strides))  # type: ignore[misc]
    return choose(sizes, threads=threads)


def run(back: bool, operands: dict[str, Array], mask: Array | None, scale: float, causal: bool) -> tuple:
    """The results for operands by the names that the kernels have."""
    from cleargrad.devices.cpu import launch

    operands = {name: in_rows(x) for name, x in operands.items()}
    q, k, v = (operands[name] for name in "qkv")
    if mask is not None:
        operands["mask"] = np.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
    if back:
        results = {f"d{name}": np.empty(operands[name].shape, q.dtype) for name in "qkv"}
    else:
        shapes = {"out": v.shape[-1], "peaks": 1, "totals": 1}
        results = {name: np.empty((*q.shape[:-1], columns), q.dtype) for name, columns in shapes.items()}
    kind = "none" if mask is None else "bool" if mask.dtype.kind == "b" else "float"
    extents = (q.shape[:-2], q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1])
    threads = launch.threads(prod(q.shape) * k.shape[-2] * 2)
    strides = tuple(
        (name, tuple(step // x.itemsize for step in x.strides))
        for name, x in (operands | results).items()
        if name not in ("peaks", "totals")
    )
    facts = (*extents, q.dtype.name, kind, causal, scale)
    launch.ready(chosen, back, facts, strides, threads, alone=threads == 1).run_named(**operands, **results)
    return tuple(results.values())


def in_rows(x: Array) -> Array:
    """An array whose rows are contiguous."""
    near = x.shape[-1] == 1 or x.strides[-1] == x.itemsize
    return x if near and x.flags.aligned and min(x.strides) >= 0 else np.ascontiguousarray(x)


def attend(q: Array, k: Array, v: Array, mask: Array | None, *, scale: float, causal: bool) -> tuple:
    """The result, each row's highest score and sum of exponentials; rows that see nothing give zero."""
    return run(False, {"q": q, "k": k, "v": v}, mask, scale, causal)


def attend_gradient(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, peaks: Array, totals: Array,
    *, scale: float, causal: bool,
) -> tuple:  # fmt: skip
    """The gradients of q, k and v."""
    others = {"out": out, "peaks": np.ascontiguousarray(peaks), "totals": np.ascontiguousarray(totals)}
    return run(True, {"g": g, "q": q, "k": k, "v": v} | others, mask, scale, causal)
