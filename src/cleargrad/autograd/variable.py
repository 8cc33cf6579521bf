"""torch.autograd.variable: Variable, the old name of Tensor."""

from cleargrad.core.tensor import Tensor as Variable

__all__ = ["Variable"]
