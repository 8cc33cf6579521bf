"""torch.backends.cpu: what the processor can do, as NumPy sees it.

Read next: torch_names/backends/quantized.py.
"""

from __future__ import annotations


def get_cpu_capability() -> str:
    """The widest vector instructions that NumPy uses here, in PyTorch's words."""
    from numpy._core._multiarray_umath import __cpu_features__ as features

    if features.get("AVX512F"):
        return "AVX512"
    return "AVX2" if features.get("AVX2") else "DEFAULT"
