"""torch.distributions.utils: parameters into tensors of one shape, probabilities into logits, lazy attributes.

Read next: distributions/constraints.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

import cleargrad as cg
from cleargrad.core.dtype import dtype, finfo, get_default_dtype
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060

NUMBERS = (bool, int, float)
EMPTY = Size()  # the shape of one sample


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one shape; numbers take the dtype of the first tensor, or the default one."""
    if not all(isinstance(value, (Tensor, *NUMBERS)) for value in values):
        facts = {f"argument_{k}": type(value).__name__ for k, value in enumerate(values)}
        raise error(ValueError, "broadcast_all", "Input arguments must all be numbers or tensors", **facts)
    kind = next((value.dtype for value in values if isinstance(value, Tensor)), get_default_dtype())
    tensors = [value if isinstance(value, Tensor) else cg.as_tensor(value, dtype=kind) for value in values]
    return tuple(cg.broadcast_tensors(*tensors))


def _standard_normal(shape: Sequence[int], dtype: dtype | None, device: Any = None) -> Tensor:
    return cg.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


# Probabilities and logits ----------------------------------------------------------------------------------


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Sigmoid of independent logits, softmax over the last dimension of categories."""
    return logits.sigmoid() if is_binary else logits.softmax(dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's eps, so that logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """log(p / (1 − p)) of independent probabilities, log p of categories."""
    p = clamp_probs(probs)
    return p.log() - (-p).log1p() if is_binary else p.log()


# Attributes computed when they are first asked for ----------------------------------------------------------


class lazy_property:
    """An attribute that is computed once, with gradients, and then stored on the instance."""

    def __init__(self, wrapped: Callable) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with cg.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What the class itself shows, so that documentation tools see a property."""

    def __init__(self, wrapped: Callable) -> None:
        property.__init__(self, wrapped)


# Triangles as vectors ---------------------------------------------------------------------------------------


def _below(n: int, diag: int) -> Tensor:
    return cg.ones(n, n, dtype=cg.bool).tril(diag)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The entries on and below a diagonal, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        rule = f"diag ({diag}) provided is outside [{-n}, {n - 1}]."
        raise error(ValueError, "tril_matrix_to_vec", rule, mat=mat)
    return mat[..., _below(n, diag)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The square matrix whose entries on and below a diagonal are these, row by row."""
    length, shift = vec.shape[-1], 1 + 2 * diag
    size = (-shift + math.sqrt(shift**2 + 8 * length + 4 * abs(diag) * (diag + 1))) / 2
    n = round(size)
    if n - size > finfo(vec.dtype).eps:
        rule = f"The size of last dimension is {length} which is not that of a triangle of a square matrix"
        raise error(ValueError, "vec_to_tril_matrix", rule, vec=vec)
    mat = vec.new_zeros(vec.shape[:-1] + Size((n, n)))
    mat[..., _below(n, diag)] = vec
    return mat
