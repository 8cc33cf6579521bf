"""torch.distributions.constraint_registry: from unconstrained numbers to a set.

`biject_to(constraint)` is one to one and has a Jacobian, for Monte Carlo; `transform_to(constraint)` may be cheaper
and many to one, for optimisation. Read next: distributions/compound.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cleargrad.distributions import constraints, transforms
from cleargrad.distributions.transforms import same_values
from cleargrad.distributions.utils import NUMBERS
from cleargrad.errors import error

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Makers of transforms, by the class of constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable] = {}

    def register(self, constraint: Any, factory: Callable | None = None) -> Callable:
        """Registers `factory(constraint)`; without it, the result is a decorator that does."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            rule = "Expected constraint to be either a Constraint subclass or instance"
            raise error(TypeError, "register", rule, constraint=constraint)
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> transforms.Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            rule = f"Cannot transform {type(constraint).__name__} constraints"
            raise error(NotImplementedError, "ConstraintRegistry", rule)
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def above(constraint: Any) -> transforms.Transform:
    exp, shift = transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([exp, shift])


def below(constraint: Any) -> transforms.Transform:
    exp, mirror = transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([exp, mirror])


def between(constraint: Any) -> transforms.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    numbers = isinstance(low, NUMBERS) and isinstance(high, NUMBERS)
    if numbers and same_values(low, 0) and same_values(high, 1):
        return transforms.SigmoidTransform()
    stretch = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), stretch])


BOTH: dict[Any, Callable] = {
    constraints.real: lambda constraint: transforms.identity_transform,
    constraints.greater_than: above,
    constraints.greater_than_eq: above,
    constraints.less_than: below,
    constraints.interval: between,
    constraints.half_open_interval: between,
    constraints.corr_cholesky: lambda constraint: transforms.CorrCholeskyTransform(),
}
ONE_TO_ONE: dict[Any, Callable] = {
    constraints.simplex: lambda constraint: transforms.StickBreakingTransform(),
}
ANY: dict[Any, Callable] = {
    constraints.simplex: lambda constraint: transforms.SoftmaxTransform(),
    constraints.lower_cholesky: lambda constraint: transforms.LowerCholeskyTransform(),
    constraints.positive_definite: lambda constraint: transforms.PositiveDefiniteTransform(),
    constraints.positive_semidefinite: lambda constraint: transforms.PositiveDefiniteTransform(),
}


def of_parts(registry: ConstraintRegistry) -> dict[Any, Callable]:
    """Constraints made of others ask the same registry for their parts."""

    def independent(constraint: Any) -> transforms.Transform:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> transforms.Transform:
        parts = [registry(part) for part in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> transforms.Transform:
        return transforms.StackTransform([registry(part) for part in constraint.cseq], constraint.dim)

    return {constraints.independent: independent, constraints.cat: cat, constraints.stack: stack}


for registry, own in ((biject_to, ONE_TO_ONE), (transform_to, ANY)):
    for constraint, factory in (*BOTH.items(), *own.items(), *of_parts(registry).items()):
        registry.register(constraint, factory)
