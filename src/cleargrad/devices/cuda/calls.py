"""Ops that have ways of their own on a GPU, by name: functions of the driver and of arrays at its addresses.

Read next: devices/cuda/driver.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CALLS: dict[str, Callable[[Any, Any, list, dict[str, Any]], list | None]] = {}
