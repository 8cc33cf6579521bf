"""torch.version: the version whose behaviour this is, and what it was built with: neither CUDA nor HIP.

Read next: torch_names/torch_version.py.
"""

from __future__ import annotations

import sys

__version__: str = sys.modules["cleargrad"].__version__

debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = "unknown"
