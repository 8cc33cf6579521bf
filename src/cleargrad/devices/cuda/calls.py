"""Ops that have ways of their own on a GPU, by name: functions of the driver and of arrays at its addresses.

A way that does not know the dtypes of a call gives None, and the CPU makes it. Read next: devices/cuda/written.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cleargrad.devices.cuda.draws import DRAWS

CALLS: dict[str, Callable[[Any, Any, list, dict[str, Any]], list | None]] = {**DRAWS}
