"""Runs a fused op on arrays by its parts: one call after the other, or as a program where that pays.

An op that is a function of others needs no kernel of its own. Both ways give the same bits, so which one runs is a
matter of time alone: programs are made for large arrays at once, for small ones when they come again. Read next:
ops/doors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import wrap
from cleargrad.devices.cpu.native import LARGE, kernels
from cleargrad.ops.record import Recorder


def by_parts(get_op: Callable[[], Any], check: Callable | None, at_first_sight: bool) -> Callable:
    """The kernel of an op that has parts; `check` raises errors that they would not.

    Large arrays have a program at once, unless the op is so long that making one must pay by repetition.
    """

    def run(*operands: Any, **attrs: Any) -> Any:
        if check is not None:
            check(*operands, **attrs)
        found = kernels()
        if found is not None:
            large = at_first_sight and any(type(x) is np.ndarray and x.size >= LARGE for x in operands)
            results = found.parts(get_op(), operands, attrs, large)
            if results is not None:
                return results
        return one_by_one(get_op(), operands, attrs)

    return run


def one_by_one(op: Any, operands: tuple, attrs: dict[str, Any]) -> Any:
    before = mode.set(
        observer=None, recorder=None, waiter=None, saved_hooks=None, inference=False,
        anomaly=False,
    )  # fmt: skip
    try:
        tensors = tuple([wrap(x) if type(x) is np.ndarray else x for x in operands])
        spec = op.spec(*tensors, **attrs)
        with np.errstate(all="ignore"):
            results = tuple([out._data for out in Recorder.parts_of(op, tensors, attrs, spec)])
        return results[0] if isinstance(spec, Spec) else results
    finally:
        mode.set(**before)
