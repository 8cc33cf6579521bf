"""torch.onnx.symbolic_helper: decorators of functions that write a model's parts to an ONNX file.

Libraries define such functions when they are imported; cleargrad never calls them. Read next:
torch_names/fx.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def parse_args(*arg_descriptors: str) -> Callable[[Callable], Callable]:
    """Says what the arguments of the function are."""
    return lambda fn: fn


def quantized_args(*arg_q_descriptors: Any, **options: Any) -> Callable[[Callable], Callable]:
    return lambda fn: fn
