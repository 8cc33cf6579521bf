"""Every op, one declaration each: op.py is the record, apply.py the door, the others are declarations.

Read next: ops/op.py.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

# The declarations, in reading order; loading one registers its ops.
FILES = (
    "pointwise",
    "bounds",
    "comparison",
    "elementary",
    "special_functions",
    "complex_numbers",
    "views",
    "dimensions",
    "strides",
    "splitting",
    "conversion",
    "creation",
    "ranges",
    "legacy",
    "facts",
    "random",
    "random_tensors",
    "gamma_draws",
    "masking",
    "coordinates",
    "places",
    "indexing",
    "gathering",
    "scattering",
    "joining",
    "rearranging",
    "grids",
    "functional_views",
    "reductions",
    "extremes",
    "statistics",
    "histograms",
    "scans",
    "sorting",
    "matmul",
    "linear",
    "einsum",
    "contractions",
    "linear_algebra",
    "matrix_functions",
    "triangular",
    "decompositions",
    "reflections",
    "symmetric_factors",
    "low_rank",
    "norms",
    "distances",
    "fourier",
    "spectrogram",
    "windows",
    "rectifier",
    "activation",
    "softmax",
    "loss",
    "cross_entropy",
    "linear_cross_entropy",
    "margin_loss",
    "sequence_loss",
    "normalization",
    "channel_norms",
    "dropout",
    "recurrent",
    "recurrent_networks",
    "embedding",
    "attention",
    "multi_head_attention",
    "padding",
    "convolution",
    "pooling",
    "adaptive_pooling",
    "image_layout",
    "resample",
    "grid_sampling",
)


def load() -> None:
    for name in FILES:
        importlib.import_module(f"cleargrad.ops.{name}")


def functions(space: str) -> dict[str, Callable]:
    """The public functions of a namespace, such as "" or "nn.functional", by name."""
    from cleargrad.ops.creation import FUNCTIONS
    from cleargrad.ops.op import FACES

    found = dict(FUNCTIONS) if space == "" else {}
    found.update({face.name: face.function for face in FACES if space in face.spaces})
    return found
