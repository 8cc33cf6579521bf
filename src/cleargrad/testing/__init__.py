"""torch.testing: tensors compared, and tensors made, for tests. Read next: testing/comparison.py."""

from cleargrad.testing.comparison import assert_allclose, assert_close
from cleargrad.testing.creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
