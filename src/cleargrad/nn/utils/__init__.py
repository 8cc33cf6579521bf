"""torch.nn.utils: gradients clipped, parameters as vectors, and other things done to modules from outside.

Read next: nn/utils/clip_grad.py.
"""

from __future__ import annotations

import importlib
from typing import Any

from cleargrad.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from cleargrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from cleargrad.nn.utils.init import skip_init
from cleargrad.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from cleargrad.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

# Files imported when first asked for, and functions in them.
LATER = ("fusion", "memory_format", "parametrizations", "parametrize", "prune", "rnn", "stateless")
FILE_OF = {
    "convert_conv2d_weight_memory_format": "memory_format",
    "convert_conv3d_weight_memory_format": "memory_format",
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
}


def __getattr__(name: str) -> Any:
    if name in FILE_OF:
        return getattr(importlib.import_module(f"{__name__}.{FILE_OF[name]}"), name)
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
