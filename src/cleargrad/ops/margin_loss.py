"""Losses that ask for a margin between scores or distances.

Read next: ops/sequence_loss.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.tensor import Tensor, is_seen
from cleargrad.errors import error
from cleargrad.expr import expr
from cleargrad.ops.activation import logsigmoid
from cleargrad.ops.declare import composite, face
from cleargrad.ops.elementary import sigmoid
from cleargrad.ops.loss import check_pair, chosen_reduction, elementwise_loss, reduce_values
from cleargrad.ops.rectifier import in_kind_of
from cleargrad.ops.samples import Fails, Sample, binary, real, whole
from cleargrad.ops.views import check_tensor

FUNCTIONAL = ("nn.functional",)

# Two scores or distances -----------------------------------------------------------------------------------


def signs(*shape: int, seed: int = 0) -> np.ndarray:
    """Targets of minus one and one."""
    return 2 * whole(*shape, high=2, seed=seed) - 1


def each_reduction(*args: Any, **kwargs: Any) -> Iterator[Sample]:
    for reduction in ("mean", "sum", "none"):
        yield Sample(*args, reduction=reduction, **kwargs)
    yield Fails(ValueError, *args, reduction="median", **kwargs)


def hinge_samples() -> Iterator[Sample]:
    yield from each_reduction(real(3, 4), signs(3, 4), margin=0.7)


@composite(hinge_samples, spaces=FUNCTIONAL)
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The distance itself where the target is 1, what it lacks to the margin where the target is −1."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_pair("hinge_embedding_loss", input, target)
    apart = (in_kind_of(input, margin) - input).clamp(min=0).masked_fill(target == 1, 0)
    together = input.masked_fill(target == -1, 0)
    return reduce_values(apart + together, reduction)


def cosine_samples() -> Iterator[Sample]:
    yield from each_reduction(real(3, 4), real(3, 4, seed=1), signs(3), margin=0.1)
    yield Sample(real(4), real(4, seed=1), np.array(1))
    yield Fails(RuntimeError, real(3, 4), real(4), signs(3))
    yield Fails(RuntimeError, real(3, 4), real(3, 4), signs(4))


@composite(cosine_samples, spaces=FUNCTIONAL)
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 − cosine where the target is 1; where it is −1, what the cosine exceeds the margin by."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_cosine_operands(input1, input2, target)
    tiny = 1e-12  # keeps the cosine of a zero vector finite, as in PyTorch
    product = (input1 * input2).sum(-1)
    squares = ((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)
    cosine = product / squares.sqrt()
    apart = (cosine - margin).clamp(min=0).masked_fill(target != -1, 0)
    together = (1 - cosine).masked_fill(target != 1, 0)
    return reduce_values(together + apart, reduction)


def check_cosine_operands(input1: Tensor, input2: Tensor, target: Tensor) -> None:
    name = "cosine_embedding_loss"
    check_pair(name, input1, target)
    check_tensor(name, input2, "input2")
    rank = target._form.ndim
    if rank > 1:
        raise error(
            RuntimeError, name, "0D or 1D target tensor expected, multi-target not supported", target=target
        )
    if (input1._form.ndim, input2._form.ndim) != (rank + 1, rank + 1):
        rule = f"a {rank}D target tensor expects {rank + 1}D input tensors"
        raise error(RuntimeError, name, rule, input1=input1, input2=input2, target=target)


def ranking_samples() -> Iterator[Sample]:
    yield from each_reduction(real(5), real(5, seed=1), signs(5), margin=0.3)
    yield Fails(RuntimeError, real(3, 4), real(3, 4), signs(3))


@composite(ranking_samples, spaces=FUNCTIONAL)
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin − target·(input1 − input2)): a target of 1 wants input1 above input2."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_pair("margin_ranking_loss", input1, target)
    check_tensor("margin_ranking_loss", input2, "input2")
    if not input1._form.ndim == input2._form.ndim == target._form.ndim:
        rule = "all input tensors should have the same number of dimensions"
        raise error(RuntimeError, "margin_ranking_loss", rule, input1=input1, input2=input2, target=target)
    return reduce_values((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def soft_margin_samples() -> Iterator[Sample]:
    yield from each_reduction(real(3, 4), signs(3, 4).astype(np.float64))


soft_margin = elementwise_loss(
    "soft_margin_loss",
    lambda x, y: expr.maximum(-x * y, 0) + expr.log1p(expr.exp(-expr.abs(x * y))),
    vjp=(lambda g, x, y: -g * y * sigmoid(-x * y), lambda g, x, y: -g * x * sigmoid(-x * y)),
    samples=soft_margin_samples,
    elements=binary(numbers=False),
)


@face(soft_margin, spaces=FUNCTIONAL)
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(−target·input)), for targets of −1 and 1."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_pair("soft_margin_loss", input, target)
    if input._form.shape != target._form.shape:
        input, target = input + target * 0, target + input.detach() * 0
    return soft_margin(input, target, reduction=reduction)


# Three points ----------------------------------------------------------------------------------------------


def triplet_samples() -> Iterator[Sample]:
    points = real(3, 4), real(3, 4, seed=1), real(3, 4, seed=2)
    yield from each_reduction(*points)
    yield Sample(*points, margin=2.0, p=1.5, swap=True)
    yield Fails(RuntimeError, real(3, 4), real(3, 4), real(4))
    yield Fails(ValueError, *points, margin=-1.0)


@composite(triplet_samples, spaces=FUNCTIONAL)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) − d(anchor, negative) + margin), with the p-norm as distance."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_triplet("triplet_margin_loss", anchor, positive, negative, margin)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return (a - b + eps).norm(p, -1)

    return reduce_values(triplet_values(anchor, positive, negative, distance, margin, swap), reduction)


def triplet_values(
    anchor: Tensor, positive: Tensor, negative: Tensor, distance: Callable, margin: float, swap: bool
) -> Tensor:
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return (margin + near - far).clamp(min=0)


def check_triplet(name: str, anchor: Tensor, positive: Tensor, negative: Tensor, margin: float) -> None:
    for role, tensor in (("anchor", anchor), ("positive", positive), ("negative", negative)):
        check_tensor(name, tensor, role)
    if margin <= 0:
        raise error(ValueError, name, f"margin must be greater than 0, got {margin}")
    if not anchor._form.ndim == positive._form.ndim == negative._form.ndim:
        rule = "the anchor, positive, and negative tensors are expected to have the same number of dimensions"
        raise error(RuntimeError, name, rule, anchor=anchor, positive=positive, negative=negative)


def distance_samples() -> Iterator[Sample]:
    points = real(3, 4), real(3, 4, seed=1), real(3, 4, seed=2)
    yield from each_reduction(*points)
    yield Sample(*points, distance_function=lambda a, b: (a - b).abs().sum(-1), margin=2.0, swap=True)
    yield Fails(ValueError, *points, margin=-1.0)


@composite(distance_samples, spaces=FUNCTIONAL)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with a distance of one's own; without one, the Euclidean."""
    reduction = chosen_reduction(None, None, reduction)
    check_triplet("triplet_margin_with_distance_loss", anchor, positive, negative, margin)
    distance = distance_function or (lambda a, b: (a - b + 1e-6).norm(2, -1))
    return reduce_values(triplet_values(anchor, positive, negative, distance, margin, swap), reduction)


# Scores of several classes ---------------------------------------------------------------------------------


def multi_margin_samples() -> Iterator[Sample]:
    x, target = real(5, 3), whole(5, high=3)
    yield from each_reduction(x, target)
    yield Sample(x, target, 2, 0.5)
    yield Sample(real(3), np.array(1))
    yield Fails(ValueError, x, target, 3)
    yield Fails(RuntimeError, x, target[:4])
    yield Fails(RuntimeError, x, target + 3)
    yield Fails(RuntimeError, x, target, weight=real(4))


@composite(multi_margin_samples, spaces=FUNCTIONAL)
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ over wrong classes i of max(0, margin − input[target] + input[i])ᵖ, divided by all classes."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_tensor("multi_margin_loss", input)
    input = input if input._form.ndim else input.unsqueeze(0)
    check_multi_margin(input, target, p, weight)
    places = target.reshape(*input._form.shape[:-1], 1)
    own = input.gather(-1, places)
    lacking = (margin - own + input).clamp(min=0)
    if p == 2:
        lacking = lacking * lacking
    if weight is not None:
        lacking = lacking * weight[places]
    classes = input._form.shape[-1]
    values = lacking.scatter(-1, places, 0).sum(-1) / classes
    return reduce_values(values, reduction)


def check_multi_margin(input: Tensor, target: Tensor, p: int, weight: Tensor | None) -> None:
    name = "multi_margin_loss"
    check_pair(name, input, target)
    if p not in (1, 2):
        raise error(ValueError, name, "only p == 1 and p == 2 supported", p=p)
    shape = input._form.shape
    if len(shape) > 2 or shape[-1] == 0:
        raise error(RuntimeError, name, "expected non-empty vector or matrix", input=input)
    if target._form.shape not in ((shape[:-1],) if len(shape) == 2 else ((), (1,))):
        raise error(RuntimeError, name, "expected one target for each sample", input=input, target=target)
    if weight is not None and weight._form.shape != shape[-1:]:
        raise error(RuntimeError, name, "expected one weight for each class", input=input, weight=weight)
    check_range(name, target, 0, shape[-1])


def check_range(name: str, target: Tensor, low: int, high: int) -> None:
    if is_seen(target) and ((target._data < low) | (target._data >= high)).any():
        raise error(RuntimeError, name, f"target out of range: expected at least {low} and less than {high}")


def multilabel_samples() -> Iterator[Sample]:
    x, target = real(3, 4), np.array([[2, 0, -1, 1], [3, -1, -1, -1], [-1, 0, 1, 2]])
    yield from each_reduction(x, target)
    yield Sample(real(4), np.array([1, 3, -1, 0]))
    yield Fails(RuntimeError, x, target[:, :2])
    yield Fails(RuntimeError, x, target + 2)


@composite(multilabel_samples, spaces=FUNCTIONAL)
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ over right classes j and wrong classes i of max(0, 1 − input[j] + input[i]), divided by the classes.

    A row of the target names the right classes up to its first −1.
    """
    name = "multilabel_margin_loss"
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_pair(name, input, target)
    if target._form.shape != input._form.shape:
        raise error(RuntimeError, name, "inconsistent target size", input=input, target=target)
    if not input._form.ndim:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    classes = input._form.shape[-1]
    check_range(name, target, -1, classes)
    named = (target >= 0).long().cumprod(-1).to(input.dtype)  # 1 up to the first −1
    places = target.clamp(min=0)
    right = input.detach().new_zeros(input._form.shape).scatter_add(-1, places, named).clamp(max=1)
    own = input.gather(-1, places)
    lacking = (1 - own.unsqueeze(-1) + input.unsqueeze(-2)).clamp(min=0)
    pairs = named.unsqueeze(-1) * (1 - right).unsqueeze(-2)
    return reduce_values((lacking * pairs).sum((-2, -1)) / classes, reduction)


def multilabel_soft_samples() -> Iterator[Sample]:
    x, target = real(3, 4), whole(3, 4, high=2).astype(np.float64)
    yield from each_reduction(x, target)
    yield Sample(x, target, real(4, low=0.5, seed=1))
    yield Fails(RuntimeError, x, target[:, :2])


@composite(multilabel_soft_samples, spaces=FUNCTIONAL)
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of binary_cross_entropy_with_logits."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_pair("multilabel_soft_margin_loss", input, target)
    values = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        values = values * weight
    return reduce_values(values.sum(-1) / input._form.shape[-1], reduction)
