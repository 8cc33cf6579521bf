"""cleargrad.datasets: small real data that comes with the package, for demos, examples and tests.

Nothing is downloaded. Where each set comes from, and its licence, is in the text file beside it. Read next:
cli/demo.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cleargrad.core.tensor import Tensor
from cleargrad.ops.creation import from_numpy

__all__ = ["digits"]


def digits() -> tuple[Tensor, Tensor]:
    """1,797 handwritten digits: images (1797, 1, 8, 8) float32 from 0 to 1, and labels (1797,) int64.

    By E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0.
    """
    with np.load(Path(__file__).parent / "digits.npz") as stored:
        images, labels = stored["images"], stored["labels"]
    return from_numpy(images[:, None].astype(np.float32) / 16), from_numpy(labels.astype(np.int64))
