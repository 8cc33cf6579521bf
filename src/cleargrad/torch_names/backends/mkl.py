"""torch.backends.mkl: Intel's linear algebra, which NumPy may use and cleargrad does not ask for.

Read next: torch_names/backends/mkldnn.py.
"""

from __future__ import annotations

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    return False


class verbose:
    """Accepted; there is nothing to report."""

    def __init__(self, enable: int):
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
