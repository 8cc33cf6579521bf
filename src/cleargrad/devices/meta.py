"""The device "meta": tensors that have a shape, a dtype and strides, and no values.

A model of any size is built on it in no memory and in no time; calls find out shapes, and errors in them.
Read next: ops/apply.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cleargrad.core.device import Driver, Elsewhere, Held, device


class Meta(Driver):
    """Memory is None: there is nothing to keep, and nothing to do."""

    type = "meta"
    has_values = False

    def place(self, asked: device) -> device:
        return device("meta")

    def allocate(self, form: np.ndarray) -> None:
        return None

    def receive(self, array: np.ndarray) -> None:
        return None

    def give(self, memory: None, form: np.ndarray) -> np.ndarray:
        raise Elsewhere(Held(device("meta"), self, None, form))

    def write(self, target: None, form: np.ndarray, source: None) -> None:
        pass

    def run(self, op: Any, operands: Sequence, attrs: dict[str, Any], forms: Sequence[np.ndarray]) -> list:
        return [None] * len(forms)
