"""Runs a fused op on arrays by its parts: one call after the other, or as a program where that pays.

An op that is a function of others needs no kernel of its own. Both ways give the same bits, so which one runs is a
matter of time alone: programs are made for large arrays at once, for small ones when they come again. Read next:
ops/flat_doors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cleargrad.codegen.native import LARGE, kernels
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import wrap
from cleargrad.ops.record import fresh


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
        grad=False, autocast=None, observer=None, recorder=None, waiter=None, saved_hooks=None, inference=False,
        anomaly=False,
    )  # fmt: skip
    try:
        tensors = tuple([wrap(x) if type(x) is np.ndarray else x for x in operands])
        spec, outs = op.spec(*tensors, **attrs), op.parts(*tensors, **attrs)
        if isinstance(spec, Spec):
            return fresh(outs, spec, tensors)._data
        return tuple([fresh(out, part, tensors)._data for out, part in zip(outs, spec, strict=True)])
    finally:
        mode.set(**before)
