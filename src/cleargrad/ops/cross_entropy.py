"""Losses over classes: nll_loss and cross_entropy.

Classes are dimension 1 (0 of a 1-d input). cross_entropy with class numbers is one op that keeps nothing
but its operands; its adjoint computes softmax again, which costs less than keeping it. Read next:
ops/margin_loss.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.dtype import FLOAT, OF_NUMPY, int64, uint8
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import face, fused
from cleargrad.ops.loss import check_pair, chosen_reduction, reduce_values
from cleargrad.ops.ranges import arange
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.softmax import log_softmax, softmax_backward

FUNCTIONAL = ("nn.functional",)

# Rules -----------------------------------------------------------------------------------------------------


def class_dim(rank: int) -> int:
    return 0 if rank == 1 else 1


def check_classes(name: str, x: Tensor, target: Tensor, weight: Tensor | None) -> None:
    """Shapes and dtypes of a loss over class numbers; the numbers themselves are checked by the kernel."""
    shape, places = x._form.shape, target._form.shape
    if OF_NUMPY[x._form.dtype].category != FLOAT:
        raise error(NotImplementedError, name, f"not implemented for {x.dtype}", input=x)
    if not shape:
        raise error(ValueError, name, "expected 1 or more dimensions (got 0)", input=x)
    check_places(name, x, target, shape, places)
    if target.dtype not in (int64, uint8):
        rule = f"expected target dtype to be Long or Byte, but got {target.dtype}"
        raise error(RuntimeError, name, rule, target=target, fix="use target.long() for class numbers")
    if weight is None:
        return
    classes = shape[class_dim(len(shape))]
    if weight._form.shape != (classes,):
        rule = f"weight tensor should be defined either for all {classes} classes or no classes"
        raise error(RuntimeError, name, rule, input=x, weight=weight)
    if weight._form.dtype != x._form.dtype:
        raise error(RuntimeError, name, f"expected weight of {x.dtype}", weight=weight)


def check_places(name: str, x: Tensor, target: Tensor, shape: tuple, places: tuple) -> None:
    if len(shape) == 1:
        if len(places) > 1 or places not in ((), (1,)):
            raise error(ValueError, name, "a 1D input takes one target", input=x, target=target)
        return
    if len(shape) == 2 and len(places) > 1:
        rule = "0D or 1D target tensor expected, multi-target not supported"
        raise error(RuntimeError, name, rule, input=x, target=target)
    if places[:1] != shape[:1]:
        given = places[0] if places else 1
        rule = f"expected input batch_size ({shape[0]}) to match target batch_size ({given})"
        raise error(ValueError, name, rule, input=x, target=target)
    if places[1:] != shape[2:]:
        rule = f"expected target size {[shape[0], *shape[2:]]}, got {list(places)}"
        raise error(RuntimeError, name, rule, input=x, target=target)


def loss_spec(x: Tensor, target: Tensor, weight: Tensor | None, *, reduction: str, ignore_index: int) -> Spec:
    check_classes("nll_loss", x, target, weight)
    return Spec(target._form.shape if reduction == "none" else (), x.dtype)


def adjoint_spec(
    grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, *, reduction: str, ignore_index: int
) -> Spec:
    return Spec(x._form.shape, x.dtype)


# Kernels ---------------------------------------------------------------------------------------------------


def check_targets(x: np.ndarray, target: np.ndarray, *_: Any, ignore_index: int, **options: Any) -> None:
    """Raises the error for a class that does not exist; machine code would count some from the end."""
    count = x.shape[class_dim(x.ndim)]
    if not target.size:
        return
    low, high = np.minimum.reduce(target, axis=None), np.maximum.reduce(target, axis=None)
    if low >= 0 and high < count:
        return
    classes = target.astype(np.int64, copy=False)
    wrong = ((classes < 0) | (classes >= count)) & (classes != ignore_index)
    if wrong.any():
        rule = f"Target {classes[wrong].flat[0]} is out of bounds."
        raise error(IndexError, "nll_loss", rule, classes=count)


def check_targets_of_gradient(grad: np.ndarray, *operands: Any, **options: Any) -> None:
    check_targets(*operands, **options)


# Ops -------------------------------------------------------------------------------------------------------


def class_samples() -> Iterator[Sample]:
    x, target = real(5, 3), np.array([0, 2, 1, 0, 2])
    for reduction in ("mean", "sum", "none"):
        yield Sample(x, target, reduction=reduction)
    yield Sample(x, target, ignore_index=2)
    yield Sample(real(3), np.array(2))
    yield Sample(real(2, 3, 4), whole(2, 4, high=3))
    yield Sample(real(2, 3, 2, 2), whole(2, 2, 2, high=3), reduction="none", ignore_index=1)
    yield Fails(IndexError, x, np.array([0, 2, 1, 0, 3]))
    yield Fails(ValueError, x, target[:4])
    yield Fails(RuntimeError, x, target.astype(np.int32))
    yield Fails(RuntimeError, x, target, weight=real(4))
    yield Fails(ValueError, x, target, reduction="median")
    yield Fails(TypeError, x, [0, 2, 1, 0, 2])


def cross_entropy_samples() -> Iterator[Sample]:
    yield from class_samples()
    x, target = real(5, 3), np.array([0, 2, 1, 0, 2])
    for reduction in ("mean", "sum", "none"):
        yield Sample(x, target, label_smoothing=0.2, reduction=reduction, ignore_index=1)
        yield Sample(x, real(5, 3, low=0, high=1, seed=1), reduction=reduction)
    yield Sample(x, real(5, 3, low=0, high=1, seed=1), label_smoothing=0.2)
    yield Fails(RuntimeError, x, target, label_smoothing=2.0)
    yield Fails(RuntimeError, x, real(5, 3), ignore_index=1)


def op_samples() -> Iterator[Sample]:
    x, target = real(5, 3), np.array([0, 2, 1, 0, 2])
    for reduction in ("mean", "sum", "none"):
        yield Sample(x, target, None, reduction=reduction, ignore_index=2)
    yield Sample(real(2, 3, 4), whole(2, 4, high=3), None, reduction="mean", ignore_index=-100)


def adjoint_samples() -> Iterator[Sample]:
    x, target = real(5, 3), np.array([0, 2, 1, 0, 2])
    yield Sample(real(), x, target, None, reduction="mean", ignore_index=2)
    yield Sample(real(5), x, target, None, reduction="none", ignore_index=-100)


# The same made of other ops --------------------------------------------------------------------------------


def class_numbers(target: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Which samples are ignored, and class numbers that may be used as indices."""
    classes = target.long()
    ignored = classes == ignore_index
    return ignored, classes.masked_fill(ignored, 0)


def sample_shares(target: Tensor, weight: Any, x: Tensor, *, reduction: str, ignore_index: int) -> Tensor:
    """What each sample's loss is multiplied by: its class's weight, for a mean divided by all of them."""
    ignored, classes = class_numbers(target, ignore_index)
    if weight is None:
        share = ignored.logical_not().to(x.dtype)
    else:
        share = weight.detach()[classes].masked_fill(ignored, 0)
    return (share / share.sum()).masked_fill(ignored, 0) if reduction == "mean" else share


def nll_parts(x: Tensor, target: Tensor, weight: Any, *, reduction: str, ignore_index: int) -> Tensor:
    dim = class_dim(x._form.ndim)
    ignored, classes = class_numbers(as_places(target, x), ignore_index)
    share = sample_shares(target, weight, x, reduction="none", ignore_index=ignore_index)
    own = x.gather(dim, classes.unsqueeze(dim)).squeeze(dim)
    values = (-own).masked_fill(ignored, 0).reshape(target._form.shape) * share
    if reduction == "none":
        return values
    return values.sum() / share.sum() if reduction == "mean" else values.sum()


def as_places(values: Tensor, x: Tensor) -> Tensor:
    """One value per sample; the one sample of a 1-d input may come as a vector."""
    return values.reshape(()) if x._form.ndim == 1 else values


def nll_backward_parts(
    grad: Tensor, x: Tensor, target: Tensor, weight: Any, *, reduction: str, ignore_index: int
) -> Tensor:
    """−share · grad at each sample's own class, zero elsewhere."""
    slope, others = own_slopes(grad, x, target, weight, reduction=reduction, ignore_index=ignore_index)
    return slope.masked_fill(others, 0)


def own_slopes(
    grad: Tensor, x: Tensor, target: Tensor, weight: Any, *, reduction: str, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """−share · grad of each sample, and which classes are not its own."""
    rank = x._form.ndim
    dim = class_dim(rank)
    share = sample_shares(target, weight, x, reduction=reduction, ignore_index=ignore_index)
    _, classes = class_numbers(as_places(target, x), ignore_index)
    numbers = arange(x._form.shape[dim], device=x.device).reshape(-1, *[1] * (rank - dim - 1))
    return as_places(share * -grad, x).unsqueeze(dim), numbers != classes.unsqueeze(dim)


# Adjoints --------------------------------------------------------------------------------------------------


def nll_adjoint(
    g: Tensor, x: Tensor, target: Tensor, weight: Any, *, reduction: str, ignore_index: int
) -> Tensor:
    return nll_backward(g, x, target, weight, reduction=reduction, ignore_index=ignore_index)


def entropy_adjoint(
    g: Tensor, x: Tensor, target: Tensor, weight: Any, *, reduction: str, ignore_index: int
) -> Tensor:
    return cross_entropy_backward(g, x, target, weight, reduction=reduction, ignore_index=ignore_index)


def entropy_adjoint_of_grad(
    g: Tensor, x: Tensor, target: Tensor, weight: Any, *, reduction: str, ignore_index: int
) -> Tensor:
    """Σ over samples of share · (Σ over classes of softmax·g, less g at the target)."""
    rules: dict[str, Any] = {"reduction": reduction, "ignore_index": ignore_index}
    dim = class_dim(x._form.ndim)
    spread = (g * x.softmax(dim)).sum(dim).reshape(target._form.shape)
    spread = spread * sample_shares(target, weight, x, **rules)
    return nll_op(g, target, weight, **rules) + (spread if reduction == "none" else spread.sum())


def entropy_adjoint_of_logits(
    g: Tensor, grad: Tensor, x: Tensor, target: Tensor, weight: Any, *, reduction: str, ignore_index: int
) -> Tensor:
    dim = class_dim(x._form.ndim)
    share = sample_shares(target, weight, x, reduction=reduction, ignore_index=ignore_index)
    scale = (grad * share).reshape(target._form.shape if x._form.ndim > 1 else ()).unsqueeze(dim)
    return softmax_backward(g * scale, x.softmax(dim), dim=dim)


def picked_loss(name: str, samples: Callable, node: str) -> Callable:
    vjp = (nll_adjoint, None, None)
    return fused(name, nll_parts, spec=loss_spec, check=check_targets, vjp=vjp, samples=samples, node=node)


def entropy_loss(name: str, samples: Callable, node: str) -> Callable:
    vjp = (entropy_adjoint, None, None)
    parts = entropy_parts
    return fused(name, parts, spec=loss_spec, check=check_targets, vjp=vjp, samples=samples, node=node)


def entropy_parts(x: Tensor, target: Tensor, weight: Any, *, reduction: str, ignore_index: int) -> Tensor:
    rules = {"reduction": reduction, "ignore_index": ignore_index}
    return nll_op(log_softmax(x, class_dim(x._form.ndim)), target, weight, **rules)


def entropy_backward_parts(
    grad: Tensor, x: Tensor, target: Tensor, weight: Any, *, reduction: str, ignore_index: int
) -> Tensor:
    dim = class_dim(x._form.ndim)
    slope, others = own_slopes(grad, x, target, weight, reduction=reduction, ignore_index=ignore_index)
    return slope.masked_fill(others, 0) - x.softmax(dim) * slope  # which is the sum over all classes, too


nll_op = picked_loss("nll_loss", class_samples, "NllLossBackward0")
nll_2d_op = picked_loss("nll_loss2d", op_samples, "NllLoss2DBackward0")
cross_entropy_op = entropy_loss("cross_entropy", cross_entropy_samples, "NllLossBackward0")
cross_entropy_2d_op = entropy_loss("cross_entropy2d", op_samples, "NllLoss2DBackward0")
nll_backward = fused(
    "nll_loss_backward",
    nll_backward_parts,
    spec=adjoint_spec,
    check=check_targets_of_gradient,
    vjp=(
        # nll_loss is linear in x, so that its adjoint's adjoint is nll_loss itself.
        lambda g, target, weight, *, reduction, ignore_index: nll_op(
            g, target, weight, reduction=reduction, ignore_index=ignore_index
        ),
        lambda g: g * 0,
        None,
        None,
    ),
    samples=adjoint_samples,
)
cross_entropy_backward = fused(
    "cross_entropy_backward",
    entropy_backward_parts,
    spec=adjoint_spec,
    check=check_targets_of_gradient,
    vjp=(entropy_adjoint_of_grad, entropy_adjoint_of_logits, None, None),
    samples=adjoint_samples,
)


@face(nll_op, spaces=FUNCTIONAL)
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """−input at the target class, for log-probabilities; a mean is weighted, without ignored targets."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_pair("nll_loss", input, target)
    door = nll_2d_op if input._form.ndim > 2 else nll_op
    return door(input, target, weight, reduction=reduction, ignore_index=ignore_index)


@face(cross_entropy_op, spaces=FUNCTIONAL)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """nll_loss of log_softmax; the target holds class numbers or, in the input's shape, probabilities."""
    reduction = chosen_reduction(size_average, reduce, reduction)
    check_pair("cross_entropy", input, target)
    if not 0 <= label_smoothing <= 1:
        rule = f"label_smoothing must be between 0.0 and 1.0, got {label_smoothing}"
        raise error(RuntimeError, "cross_entropy", rule)
    if input._form.shape == target._form.shape:
        check_probabilities(target, ignore_index)
        return soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    if label_smoothing:
        return smoothed_cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)
    door = cross_entropy_2d_op if input._form.ndim > 2 else cross_entropy_op
    return door(input, target, weight, reduction=reduction, ignore_index=ignore_index)


def check_probabilities(target: Tensor, ignore_index: int) -> None:
    if target.dtype.category != FLOAT:
        rule = "expected floating point type for target with class probabilities"
        raise error(RuntimeError, "cross_entropy", rule, target=target)
    if ignore_index >= 0:
        raise error(RuntimeError, "cross_entropy", "ignore_index is not supported for floating point target")


def soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    dim = class_dim(input._form.ndim)
    classes = input._form.shape[dim]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    values = log_softmax(input, dim) * target
    if weight is not None:
        values = values * along_classes(weight, input)
    if reduction == "none":
        return -values.sum(dim)
    samples = input._form.size // max(classes, 1)
    return -values.sum() / samples if reduction == "mean" else -values.sum()


def along_classes(weight: Tensor, input: Tensor) -> Tensor:
    return weight.reshape(-1, *[1] * max(input._form.ndim - 2, 0))


def smoothed_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, smoothing: float
) -> Tensor:
    """The loss of the target class mixed with the mean loss of all classes."""
    dim = class_dim(input._form.ndim)
    logs = log_softmax(input, dim)
    own = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    everywhere = -(logs if weight is None else logs * along_classes(weight, input)).sum(dim)
    everywhere = everywhere.reshape(target._form.shape).masked_fill(target == ignore_index, 0)
    if reduction == "mean":
        shares = sample_shares(target, weight, input, reduction="none", ignore_index=ignore_index)
        everywhere = everywhere.sum() / shares.sum()
    else:
        everywhere = reduce_values(everywhere, reduction)
    return (1 - smoothing) * own + smoothing / input._form.shape[dim] * everywhere
