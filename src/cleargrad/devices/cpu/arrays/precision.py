"""The precision kernels compute in: half types are summed in float32 and rounded once, as PyTorch does.

Read next: devices/cpu/arrays/sums.py.
"""

import numpy as np

from cleargrad.core.dtype import NARROW


def is_half(dtype) -> bool:
    """Whether dtype is float16 or bfloat16."""
    return dtype in NARROW


def widen(x) -> np.ndarray:
    """x itself, or a float32 copy of a half precision array."""
    return x.astype(np.float32) if is_half(x.dtype) else x
