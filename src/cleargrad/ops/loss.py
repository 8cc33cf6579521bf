"""Losses of one element of input and target at a time, and what all losses share.

`elementwise_loss` turns a scalar formula into a loss with a reduction that is one node in the graph, as in
PyTorch. Losses over classes are in ops/cross_entropy.py. Read next:
ops/cross_entropy.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from cleargrad.core.dtype import FLOAT, OF_NUMPY
from cleargrad.core.shape import Spec, broadcast, count
from cleargrad.core.tensor import Tensor, is_seen
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops.activation import logsigmoid
from cleargrad.ops.apply import label
from cleargrad.ops.bounds import clamp_below, clamp_both
from cleargrad.ops.declare import composite, elementwise, face, fused
from cleargrad.ops.elementary import log, log1p, sigmoid
from cleargrad.ops.samples import Fails, Sample, binary, real, whole
from cleargrad.ops.views import check_tensor

FUNCTIONAL = ("nn.functional",)

# Reduction -------------------------------------------------------------------------------------------------


def chosen_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """ "none", "mean" or "sum", also from the two older arguments."""
    if size_average is not None or reduce is not None:
        summed = "mean" if size_average is None or size_average else "sum"
        reduction = summed if reduce is None or reduce else "none"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            UserWarning,
            stacklevel=3,
        )
    if reduction not in ("none", "mean", "sum"):
        raise error(ValueError, "reduction", f"{reduction} is not a valid value for reduction")
    return reduction


def reduce_values(values: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return values
    return values.mean() if reduction == "mean" else values.sum()


def behind_reduction(vjp: Callable, operand: str) -> Callable:
    """A vjp of the elements as a vjp of their sum or mean, with the same saved values.

    It asks for the shape of its own operand, the only one that is known to have a gradient.
    """
    own_shape = f"{operand}_shape"

    def reduced(g: Tensor, *saved: Any, reduction: str, **shape: tuple) -> Tensor:
        if reduction == "mean":
            g = g / count(shape[own_shape])
        return vjp(g, *saved)

    reduced.parameters = (expr.parameters(vjp)[0], (own_shape, "reduction"), False)
    return reduced


def elementwise_loss(
    name: str, formula: Callable, *, vjp: tuple, samples: Callable, elements: Callable
) -> Callable:
    """A loss `(x, y, ..., *, reduction)`; `samples` call its public function, `elements` the formula."""
    each = elementwise(name, formula, vjp=vjp, samples=elements, accepts=(FLOAT,), public=False)

    def spec(*operands: Any, reduction: str) -> Spec:
        return Spec((), each.op.spec(*operands).dtype)

    def parts(*operands: Any, reduction: str) -> Tensor:
        return reduce_values(each(*operands), reduction)

    parts.parameters = each.op.tensors, ("reduction",), False
    reduced = fused(
        name + "_reduced",
        parts,
        spec=spec,
        vjp=tuple(
            rule and behind_reduction(rule, operand)
            for rule, operand in zip(vjp, each.op.tensors, strict=True)
        ),
        samples=samples,
        node=each.op.node.__name__,
    )

    def door(*operands: Any, reduction: str) -> Tensor:
        return each(*operands) if reduction == "none" else reduced(*operands, reduction=reduction)

    return label(door, reduced.op)


# Arguments -------------------------------------------------------------------------------------------------


def check_pair(name: str, input: Tensor, target: Tensor) -> None:
    check_tensor(name, input)
    check_tensor(name, target, "target")


def broadcast_pair(name: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Input and target in one shape, with PyTorch's warning when they came in two."""
    check_pair(name, input, target)
    a, b = input._form.shape, target._form.shape
    if a == b:
        return input, target
    warnings.warn(
        f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). "
        "This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size.",
        UserWarning,
        stacklevel=3,
    )
    shape = broadcast(name, a, b)
    return input.expand(shape), target.expand(shape)


def check_same_size(name: str, input: Tensor, target: Tensor) -> None:
    check_pair(name, input, target)
    if input._form.shape != target._form.shape:
        raise error(ValueError, name, "target and input must have the same size", input=input, target=target)


def check_floats(name: str, **tensors: Any) -> None:
    kinds = {OF_NUMPY[tensor._form.dtype] for tensor in tensors.values()}
    if any(kind.category != FLOAT for kind in kinds):
        raise error(RuntimeError, name, "expected floating point tensors", **tensors)


def weighted(name: str, values: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Elements times weights; their mean is divided by the sum of the weights."""
    check_weight(name, values, weight)
    values = values * weight
    return values.sum() / weight.sum() if reduction == "mean" else reduce_values(values, reduction)


def check_weight(name: str, values: Tensor, weight: Tensor) -> None:
    check_tensor(name, weight, "weight")
    if weight._form.shape != values._form.shape:
        raise error(
            ValueError, name, "weights and input must have the same size", input=values, weight=weight
        )


def regression_samples(**settings: Any) -> Callable:
    """Two tensors in every reduction and some shapes, and with a setting of the loss's own."""

    def samples() -> Iterator[Sample]:
        for reduction in ("mean", "sum", "none"):
            yield Sample(real(3, 4), real(3, 4, seed=1), reduction=reduction, **settings)
        yield Sample(real(3, 4), real(4, seed=1))
        yield Sample(real(), real(seed=1))
        yield Sample(real(0, 2), real(0, 2), reduction="sum")
        yield Sample(real(3), real(3, seed=1), reduction="none", size_average=False)
        yield Fails(ValueError, real(3), real(3), reduction="median")
        yield Fails(RuntimeError, real(3, 4), real(3))

    return samples


# Regression ------------------------------------------------------------------------------------------------


def quadratic_then_linear(distance: expr.Expr, limit: expr.Expr) -> expr.Expr:
    """½·d² up to the limit, then its tangent: ½·c² + limit·(d − c), where c is d cut off at the limit."""
    near = expr.minimum(distance, limit)
    return 0.5 * near * near + limit * (distance - near)


mse = elementwise_loss(
    "mse_loss",
    lambda x, y: expr.square(x - y),
    vjp=(lambda g, x, y: (x - y) * (2 * g), lambda g, x, y: (y - x) * (2 * g)),
    samples=regression_samples(),
    elements=binary(numbers=False),
)
smooth_l1 = elementwise_loss(
    "smooth_l1_loss",
    lambda x, y, beta: quadratic_then_linear(expr.abs(x - y), beta) / beta,
    vjp=(
        lambda g, x, y, beta: clamp_both((x - y) / beta, -1, 1) * g,
        lambda g, x, y, beta: clamp_both((y - x) / beta, -1, 1) * g,
        None,
    ),
    samples=regression_samples(beta=0.7),
    elements=lambda: iter([Sample(real(3, 4), real(3, 4, seed=1), 0.7)]),
)
huber = elementwise_loss(
    "huber_loss",
    lambda x, y, delta: quadratic_then_linear(expr.abs(x - y), delta),
    vjp=(
        lambda g, x, y, delta: clamp_both(x - y, -delta, delta) * g,
        lambda g, x, y, delta: clamp_both(y - x, -delta, delta) * g,
        None,
    ),
    samples=lambda: iter(
        [
            Sample(real(3, 4), real(3, 4, seed=1)),
            Sample(real(3, 4), real(3, 4, seed=1), "none", 0.7),
            Sample(real(3, 4), real(3, 4, seed=1), delta=0.7, weight=real(3, 4, low=0.5, seed=2)),
            Fails(RuntimeError, real(3), real(3), delta=0.0),
        ]
    ),
    elements=lambda: iter([Sample(real(3, 4), real(3, 4, seed=1), 0.7)]),
)


@face(mse, spaces=FUNCTIONAL)
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input − target)²."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    input, target = broadcast_pair("mse_loss", input, target)
    if weight is None:
        return mse(input, target, reduction=reduction)
    return weighted("mse_loss", mse(input, target, reduction="none"), weight, reduction)


def l1_samples() -> Iterator[Sample]:
    yield from regression_samples()()
    yield Sample(real(3, 4), real(3, 4, seed=1), weight=real(3, 4, low=0.5, seed=2))
    yield Fails(ValueError, real(3, 4), real(3, 4), weight=real(4))


@composite(l1_samples, spaces=FUNCTIONAL)
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input − target|."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    input, target = broadcast_pair("l1_loss", input, target)
    values = (input - target).abs()
    if weight is None:
        return reduce_values(values, reduction)
    return weighted("l1_loss", values, weight, reduction)


@face(smooth_l1, spaces=FUNCTIONAL)
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """|input − target|, rounded to a parabola within beta of zero: huber_loss / beta."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    input, target = broadcast_pair("smooth_l1_loss", input, target)
    if beta < 0:
        raise error(RuntimeError, "smooth_l1_loss", f"beta must not be negative, got {beta}")
    if beta == 0:
        return reduce_values((input - target).abs(), reduction)
    return smooth_l1(input, target, beta, reduction=reduction)


@face(huber, spaces=FUNCTIONAL)
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """½·(input − target)² within delta of zero, and from there on a straight line."""
    reduction = chosen_reduction(None, None, reduction)
    input, target = broadcast_pair("huber_loss", input, target)
    if delta <= 0:
        raise error(RuntimeError, "huber_loss", f"delta must be positive, got {delta}")
    if weight is None:
        return huber(input, target, delta, reduction=reduction)
    values = huber(input, target, delta, reduction="none")
    check_weight("huber_loss", values, weight)
    return reduce_values(values * weight, reduction)


# Probabilities ---------------------------------------------------------------------------------------------


def probability_samples() -> Iterator[Sample]:
    x, y = real(3, 4, low=0.05, high=0.95), real(3, 4, low=0.05, high=0.95, seed=1)
    for reduction in ("mean", "sum", "none"):
        yield Sample(x, y, reduction=reduction)
    yield Sample(x, y, weight=real(4, low=0.5, seed=2))
    yield Fails(ValueError, x, real(4))
    yield Fails(RuntimeError, x * 5, y)
    yield Fails(RuntimeError, x, whole(3, 4, high=2))


def logit_samples() -> Iterator[Sample]:
    x, y = real(3, 4), real(3, 4, low=0.05, high=0.95, seed=1)
    for reduction in ("mean", "sum", "none"):
        yield Sample(x, y, reduction=reduction)
    yield Sample(x, y, weight=real(4, low=0.5, seed=2))
    yield Sample(x, y, pos_weight=real(4, low=0.5, seed=2))
    yield Sample(
        x, y, weight=real(3, 1, low=0.5, seed=2), pos_weight=real(4, low=0.5, seed=2), reduction="sum"
    )
    yield Fails(ValueError, x, real(4))
    yield Fails(RuntimeError, x, whole(3, 4, high=2))


def capped(log: expr.Expr) -> expr.Expr:
    """A logarithm, but no less than −100, so that a certain miss costs much and not infinitely much."""
    return expr.maximum(log, -100)


bce = elementwise_loss(
    "binary_cross_entropy",
    lambda x, y: (y - 1) * capped(expr.log1p(-x)) - y * capped(expr.log(x)),
    vjp=(
        lambda g, x, y: g * (x - y) / clamp_below((1 - x) * x, 1e-12),
        lambda g, x: g * (clamp_below(log1p(-x), -100) - clamp_below(log(x), -100)),
    ),
    samples=probability_samples,
    elements=lambda: iter([Sample(real(3, 4, low=0.05, high=0.95), real(3, 4, low=0, high=1, seed=1))]),
)
bce_with_logits = elementwise_loss(
    "binary_cross_entropy_with_logits",
    lambda x, y: expr.maximum(x, 0) - x * y + expr.log1p(expr.exp(-expr.abs(x))),
    vjp=(lambda g, x, y: g * (sigmoid(x) - y), lambda g, x: -g * x),
    samples=logit_samples,
    elements=binary(numbers=False),
)


def check_probabilities(name: str, input: Tensor) -> None:
    if not is_seen(input):
        return
    data = input._data
    if data.size and not (data.min() >= 0 and data.max() <= 1):
        raise error(RuntimeError, name, "all elements of input should be between 0 and 1", input=input)


@face(bce, spaces=FUNCTIONAL)
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−(y·log x + (1 − y)·log(1 − x)) for a probability x; the logarithms stop at −100."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_same_size("binary_cross_entropy", input, target)
    check_floats("binary_cross_entropy", input=input, target=target)
    check_probabilities("binary_cross_entropy", input)
    if weight is None:
        return bce(input, target, reduction=reduction)
    return reduce_values(bce(input, target, reduction="none") * weight, reduction)


@face(bce_with_logits, spaces=FUNCTIONAL)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy of σ(input), exact for large inputs; pos_weight scales the cost of missed ones."""
    name = "binary_cross_entropy_with_logits"
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_same_size(name, input, target)
    check_floats(name, input=input, target=target)
    if weight is None and pos_weight is None:
        return bce_with_logits(input, target, reduction=reduction)
    if pos_weight is None:
        values = bce_with_logits(input, target, reduction="none")
    else:
        values = (1 - target) * input - (1 + (pos_weight - 1) * target) * logsigmoid(input)
    return reduce_values(values if weight is None else values * weight, reduction)


def divergence_samples() -> Iterator[Sample]:
    x, y = real(3, 4, low=-3, high=-0.1), real(3, 4, low=0.05, high=0.95, seed=1)
    for reduction in ("mean", "sum", "none", "batchmean"):
        yield Sample(x, y, reduction=reduction)
        yield Sample(x, x + 0.1, reduction=reduction, log_target=True)
    yield Fails(ValueError, x, y, reduction="median")


@composite(divergence_samples, spaces=FUNCTIONAL)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """t·(log t − input): how far the distribution exp(input) is from the target."""
    check_pair("kl_div", input, target)
    by_batch = reduction == "batchmean" and size_average is None and reduce is None
    reduction = "sum" if by_batch else chosen_reduction(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
            "'mean' will be changed to behave the same as 'batchmean' in the next major release.",
            stacklevel=2,
        )
    if log_target:
        values = target.exp() * (target - input)
    else:
        values = target.xlogy(target) - target * input
    total = reduce_values(values, reduction)
    return total / input._form.shape[0] if by_batch and input._form.ndim else total


# Likelihoods -----------------------------------------------------------------------------------------------


def poisson_samples() -> Iterator[Sample]:
    x, y = real(3, 4, low=0.1, high=2.0), real(3, 4, low=0.2, high=6.0, seed=1)
    yield Sample(x, y)
    yield Sample(x, y, False, True)
    yield Sample(x, y, full=True, reduction="sum")
    yield Sample(x, y, log_input=False, eps=0.1, reduction="none")
    yield Fails(ValueError, x, y, reduction="median")


@composite(poisson_samples, spaces=FUNCTIONAL)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−log of the Poisson probability of the target count; `full` adds Stirling's term for log t!."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_pair("poisson_nll_loss", input, target)
    if log_input:
        values = input.exp() - target * input
    else:
        values = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        values = values + stirling.masked_fill(target <= 1, 0)
    return reduce_values(values, reduction)


def gaussian_samples() -> Iterator[Sample]:
    x, y, var = real(3, 4), real(3, 4, seed=1), real(3, 4, low=0.3, high=3.0, seed=2)
    yield Sample(x, y, var)
    yield Sample(x, y, var[:, :1], full=True, reduction="sum")
    yield Sample(x, y, var[:, 0], reduction="none")
    yield Sample(x, y, 2.0, eps=0.1)
    yield Fails(ValueError, x, y, -var)
    yield Fails(ValueError, x, y, var[0])
    yield Fails(ValueError, x, y, var, reduction="median")


@composite(gaussian_samples, spaces=FUNCTIONAL)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """−log of the normal density of the target, with mean `input` and variance `var`, at least eps."""
    check_pair("gaussian_nll_loss", input, target)
    given = variance_like(input, var)
    reduction = chosen_reduction(None, None, reduction)
    # The clamp is invisible to the gradient, as in PyTorch, so that a variance below eps can still grow.
    variance = given.clamp(min=eps).detach() + (given - given.detach())
    difference = input - target
    values = 0.5 * (variance.log() + difference * difference / variance)
    if full:
        values = values + 0.5 * math.log(2 * math.pi)
    return reduce_values(values, reduction)


def variance_like(input: Tensor, var: Tensor | float) -> Tensor:
    """The variance as a tensor that broadcasts to the input: one dimension may be 1, or the last one absent."""
    if not isinstance(var, Tensor):
        if var < 0:
            raise error(ValueError, "gaussian_nll_loss", "var has negative entry/entries", var=var)
        return input.new_full((1,) * input._form.ndim, var)
    shape, own = input._form.shape, var._form.shape
    if is_seen(var) and (var._data < 0).any():
        raise error(ValueError, "gaussian_nll_loss", "var has negative entry/entries", var=var)
    if own == shape:
        return var
    if shape[:-1] == own:
        return var.unsqueeze(-1)
    if len(own) == len(shape) and [n for n, wanted in zip(own, shape, strict=True) if n != wanted] == [1]:
        return var
    raise error(ValueError, "gaussian_nll_loss", "var is of incorrect size", input=input, var=var)
