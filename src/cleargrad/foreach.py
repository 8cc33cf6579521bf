"""torch._foreach_*: one operation on every tensor of a list, as optimizers written for PyTorch use them.

A second operand is one value for all (a number or a tensor) or a list with one for each. `FUNCTIONS` has them
all by name. Loaded when first asked for. Read next: optim/rule.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.norms import vector_norm

# fmt: off
UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
)
BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_max", "clamp_min")
# fmt: on


def checked(name: str, tensors: Any) -> Sequence[Tensor]:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise error(
            TypeError, name, f"argument 'self' must be tuple of Tensors, not {type(tensors).__name__}"
        )
    if not tensors:
        raise error(RuntimeError, name, "Tensor list must have at least one tensor.")
    return tensors


def one_each(name: str, tensors: Sequence[Tensor], operand: Any) -> Iterable:
    """The operand for each tensor."""
    if not isinstance(operand, (list, tuple)):
        return repeat(operand, len(tensors))
    if len(operand) != len(tensors):
        rule = f"the lists must have the same length, got {len(tensors)} and {len(operand)}"
        raise error(RuntimeError, name, rule)
    return operand


# Clamps take tensors and numbers alike, and agree with maximum and minimum on both.
METHODS = {"maximum": "clamp_min", "minimum": "clamp_max", "maximum_": "clamp_min_", "minimum_": "clamp_max_"}


def for_each(base: str) -> Callable:
    """The function that calls one method on every tensor, with its share of the further arguments.

    A name that ends in an underscore writes into the tensors and gives their list back.
    """
    name, method = f"_foreach_{base}", getattr(Tensor, METHODS.get(base, base))

    def run(self: Sequence[Tensor], *operands: Any, **given: Any) -> Sequence[Tensor]:
        tensors = checked(name, self)
        shares = [one_each(name, tensors, operand) for operand in operands]
        results = tuple(method(*together, **given) for together in zip(tensors, *shares, strict=True))
        return tensors if base.endswith("_") else results

    return run


def product(base: str) -> Callable:
    """addcmul and addcdiv: the factor is a number, one for each tensor, or a tensor with one for each."""
    name, method = f"_foreach_{base}", getattr(Tensor, base)

    def run(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, **given: Any) -> Sequence[Tensor]:
        tensors, factors = checked(name, self), given.get("scalars", value)
        factors = factors.tolist() if isinstance(factors, Tensor) else factors
        shares = [one_each(name, tensors, operand) for operand in (tensor1, tensor2, factors)]
        together = zip(tensors, *shares, strict=True)
        results = tuple(method(tensor, one, two, value=factor) for tensor, one, two, factor in together)
        return tensors if base.endswith("_") else results

    return run


def _foreach_pow(self: Any, exponent: Any) -> Sequence[Tensor]:
    """Powers of the tensors; or of one number, with a list of tensors as exponents."""
    if isinstance(self, (list, tuple)):
        return for_each("pow")(self, exponent)
    return tuple(self**power for power in checked("_foreach_pow", exponent))


def _foreach_norm(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    return tuple(vector_norm(tensor, ord, dtype=dtype) for tensor in checked("_foreach_norm", self))


def _foreach_copy_(
    self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False
) -> Sequence[Tensor]:
    return for_each("copy_")(self, src)


FUNCTIONS: dict[str, Callable] = {
    **{
        f"_foreach_{base}{end}": for_each(f"{base}{end}")
        for base in (*UNARY, *BINARY, "lerp")
        for end in ("", "_")
    },
    **{
        f"_foreach_{base}{end}": product(f"{base}{end}")
        for base in ("addcmul", "addcdiv")
        for end in ("", "_")
    },
    **{f"_foreach_{base}": for_each(base) for base in ("clone", "max", "mm", "zero_")},
    "_foreach_copy_": _foreach_copy_,
    "_foreach_norm": _foreach_norm,
    "_foreach_pow": _foreach_pow,
}
