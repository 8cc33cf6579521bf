"""torch.nn.attention: which way attention is computed. On the CPU there is one, so a choice is only remembered.

Read next: nn/attention/flex_attention.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import IntEnum

from cleargrad.errors import error


class SDPBackend(IntEnum):
    """The ways to compute attention that PyTorch knows."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | list[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Inside, only these ways may be taken; the result is the same."""
    if not isinstance(backends, (list, SDPBackend)):
        rule = "Backend must be an instance of SDPBackend or a list of SDPBackend instances"
        raise error(AssertionError, "sdpa_kernel", rule, backends=backends)
    yield
