"""Distribution: what all distributions share, and the small pattern in which each of them is written.

A subclass names its parameters and their sets in `arg_constraints`, its `support`, and then its formulas.
`_take` turns arguments into tensors of one shape and gives the batch shape; `expand` works for every
distribution, because it knows parameters and distributions inside by name; `_checked` is the first line of
formulas of a value. Samples have the shape sample_shape + batch_shape + event_shape.
Read next: distributions/exp_family.py.
"""

from __future__ import annotations

import warnings
from typing import Any

import cleargrad as cg
from cleargrad.core.shape import Size
from cleargrad.core.tensor import Tensor
from cleargrad.distributions import constraints
from cleargrad.distributions.constraints import Constraint
from cleargrad.distributions.utils import EMPTY, broadcast_all, lazy_property
from cleargrad.errors import error

__all__ = ["Distribution"]


class Distribution:
    """The abstract base of probability distributions."""

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked; by default they are, unless Python runs with -O."""
        if value not in (True, False):
            raise error(ValueError, "set_default_validate_args", "expected a bool", value=value)
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = EMPTY, event_shape: Any = EMPTY, validate_args: bool | None = None
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_arguments()

    # The pattern ---------------------------------------------------------------------------------------------

    def _take(self, **parameters: Any) -> Size:
        """Keeps the parameters, as tensors of one shape, under their names; the result is that shape."""
        tensors = broadcast_all(*parameters.values())
        self.__dict__.update(zip(parameters, tensors, strict=True))
        return tensors[0].shape

    @property
    def _parameter_names(self) -> Any:
        return self.arg_constraints

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its batch dimensions expanded; parameters become views."""
        new = self._expandable(_instance)
        batch_shape = Size(batch_shape)
        for name, value in self.__dict__.items():
            if name in new.__dict__:
                continue  # a subclass has set it already
            if name in self._parameter_names or isinstance(value, Distribution):
                new.__dict__[name] = self._expanded(value, batch_shape)
            elif not isinstance(getattr(type(self), name, None), lazy_property):
                new.__dict__[name] = value
        new._batch_shape = batch_shape
        return new

    def _expanded(self, value: Any, batch_shape: Size) -> Any:
        own = value.batch_shape if isinstance(value, Distribution) else value.shape
        return value.expand(batch_shape + own[len(self._batch_shape) :])

    def _expandable(self, instance: Any) -> Any:
        """An empty instance to fill. We cannot know what the `__init__` of somebody else's subclass keeps."""
        start = type(self).__init__
        if start is Distribution.__init__:
            raise NotImplementedError
        if not start.__module__.startswith(f"{__package__}."):
            return self._get_checked_instance(None, instance)
        return self._get_checked_instance(type(self), instance)

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        if _instance is None and (cls is None or type(self).__init__ != cls.__init__):
            rule = f"Subclass {type(self).__name__} that defines a custom __init__ method must also define"
            raise error(NotImplementedError, "expand", f"{rule} a custom .expand() method.")
        return self.__new__(type(self)) if _instance is None else _instance

    def _checked(self, value: Any) -> Any:
        """The value, after `_validate_sample` when arguments are to be checked."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _full(self, number: float, like: Tensor) -> Tensor:
        return cg.full(self._extended_shape(), number, dtype=like.dtype, device=like.device)

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Values along a new first dimension, before the batch dimensions."""
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    # What there is to know -----------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """The parameters by name, with the sets they must be in."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The set of values of positive probability."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        """Random values, without gradients."""
        with cg.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        """Random values that are functions of the parameters, so that gradients reach these."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Deprecated: `sample((n,))`."""
        text = "`sample_n(n)` will be deprecated. Use `sample((n,))` instead."
        warnings.warn(text, FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of the value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a smaller or equal value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value whose cdf this is."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The mean of −log_prob."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = EMPTY) -> Size:
        return Size(Size(sample_shape) + self._batch_shape + self._event_shape)

    def __repr__(self) -> str:
        given = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        texts = [f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in given.items()]
        return f"{type(self).__name__}({', '.join(texts)})"

    # Checks --------------------------------------------------------------------------------------------------

    def _check_arguments(self) -> None:
        try:
            sets = self.arg_constraints
        except NotImplementedError:
            warn_missing(self, "arg_constraints", "Please set `arg_constraints = {}` or initialize")
            return
        for name, constraint in sets.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # computed from another parameter, which is checked
            value = getattr(self, name)
            valid = constraint.check(value)
            if not valid.all():
                rule = f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) "
                rule += f"of distribution {self!r} to satisfy the constraint {constraint!r}, "
                rule += f"but found invalid values:\n{value}"
                raise error(ValueError, type(self).__name__, rule)

    def _validate_sample(self, value: Tensor) -> None:
        name = type(self).__name__
        if not isinstance(value, Tensor):
            rule = "The value argument to log_prob must be a Tensor"
            raise error(ValueError, name, rule, value=type(value).__name__)
        event, expected = self._event_shape, self._batch_shape + self._event_shape
        if value.shape[value.dim() - len(event) :] != event:
            rule = f"The right-most size of value must match event_shape: {value.shape} vs {event}."
            raise error(ValueError, name, rule)
        pairs = zip(reversed(value.shape), reversed(expected), strict=False)
        if any(have != 1 and want not in (1, have) for have, want in pairs):
            rule = f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
            raise error(ValueError, name, rule)
        try:
            support = self.support
        except NotImplementedError:
            warn_missing(self, "support", "to enable sample validation. Please initialize")
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")
        if not support.check(value).all():
            rule = f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
            rule += f"to be within the support ({support!r}) of the distribution {self!r}, "
            rule += f"but found invalid values:\n{value}"
            raise error(ValueError, name, rule)


def warn_missing(distribution: Distribution, what: str, advice: str) -> None:
    text = f"{type(distribution)} does not define `{what}` {advice} the distribution "
    warnings.warn(text + "with `validate_args=False` to turn off validation.", stacklevel=4)
