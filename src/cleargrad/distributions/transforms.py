"""torch.distributions.transforms: here are those that act element by element.

The base class and combinations are in distributions/transform.py, transforms of vectors and matrices in
distributions/vector_transforms.py. Read next: distributions/constraint_registry.py.
"""

from __future__ import annotations

import math
from typing import Any

import cleargrad as cg
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.transform import (
    ComposeTransform,
    IndependentTransform,
    Transform,
    clipped,
    identity_transform,
    widened,
)
from cleargrad.distributions.utils import NUMBERS, _sum_rightmost, broadcast_all, lazy_property
from cleargrad.distributions.vector_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)
from cleargrad.nn.functional import softplus

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class Elementwise(Transform):
    """An increasing bijection without arguments: all instances of a class are equal."""

    bijective = True
    sign = +1
    domain = constraints.real

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))


class ExpTransform(Elementwise):
    """exp x."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(Elementwise):
    """1 / (1 + exp(−x)), never 0 or 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return clipped(x.sigmoid())

    def _inverse(self, y: Tensor) -> Tensor:
        y = clipped(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Elementwise):
    """log(1 + exp x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Elementwise):
    """tanh x; its inverse is not exact near ±1, so a cache is advisable."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return cg.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(1 − tanh² x), in a form that does not cancel."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|; of the two inverses the positive one is given."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


def shape_of(value: Any) -> Size:
    return value.shape if isinstance(value, Tensor) else Size()


def same_values(a: Any, b: Any) -> bool:
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        return a == b
    return bool((a == b).all())


class PowerTransform(Transform):
    """x to the power of `exponent`."""

    domain = codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def _with_cache(self, cache_size: int) -> PowerTransform:
        return PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and same_values(self.exponent, other.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Size) -> Size:
        return cg.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """loc + scale · x."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> constraints.Constraint:
        return widened(constraints.real, self._event_dim)

    codomain = domain

    def _with_cache(self, cache_size: int) -> AffineTransform:
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        same_class = isinstance(other, AffineTransform)
        return same_class and same_values(self.loc, other.loc) and same_values(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, NUMBERS):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, NUMBERS):
            result = cg.full_like(x, math.log(abs(self.scale)))
        else:
            result = self.scale.abs().log()
        return _sum_rightmost(result, self.event_dim).expand(x.shape[: x.dim() - self.event_dim])

    def forward_shape(self, shape: Size) -> Size:
        return cg.broadcast_shapes(shape, shape_of(self.loc), shape_of(self.scale))

    inverse_shape = forward_shape
