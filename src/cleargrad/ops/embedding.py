"""Tables of vectors: embedding, embedding_bag, and one_hot.

An embedding reads rows of a weight; its gradient adds rows up again (devices/cpu/arrays/scatter.py). A bag is a run
of rows reduced to one. Read next: ops/attention.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.autograd.modes import no_grad
from cleargrad.core import dtype as dtypes
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, fused, opaque
from cleargrad.ops.gathering import INTEGERS, check_index
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.places import are_outside, index_op, sum_at
from cleargrad.ops.ranges import arange
from cleargrad.ops.samples import Conventional, Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# Embedding -------------------------------------------------------------------------------------------------


def embedding_samples() -> Iterator[Sample]:
    yield Sample(np.array([0, 2, 2, 1]), real(4, 3))
    yield Sample(whole(2, 3, high=4), real(4, 2))
    yield Conventional(whole(2, 3, high=4), real(4, 2), padding_idx=1)
    yield Conventional(np.array([[1, 1], [3, 0]]), real(4, 3), padding_idx=-1, scale_grad_by_freq=True)
    yield Sample(np.array(2), real(4, 3))
    yield Sample(np.zeros((0, 2), np.int64), real(4, 3))
    yield Fails(IndexError, np.array([4]), real(4, 3))
    yield Fails(IndexError, np.array([-1]), real(4, 3))
    yield Fails(RuntimeError, np.array([0]), real(4))
    yield Fails(RuntimeError, real(2), real(4, 3))
    yield Fails(AssertionError, np.array([0]), real(4, 3), padding_idx=4)


def embedding_spec(weight: Tensor, indices: Tensor, *, padding_idx: int, scale_grad_by_freq: bool) -> Spec:
    check_index("embedding", indices, matrix=None)
    check_tensor("embedding", weight, "weight")
    if weight._form.ndim != 2:
        raise error(RuntimeError, "embedding", "'weight' must be 2-D", weight=weight)
    return Spec((*indices._form.shape, weight._form.shape[1]), weight.dtype)


def embedding_vjp(
    g: Tensor, indices: Tensor, *, weight_shape: tuple, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """Adds the gradients of each row; the padding row gets none, a frequent row may get the mean."""
    if padding_idx >= 0:
        g = g.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    if scale_grad_by_freq:
        counts = sum_at(g.new_ones(indices._form.shape), indices, shape=weight_shape[:1], dims=(0,))
        g = g / counts[indices].unsqueeze(-1)
    return sum_at(g, indices, shape=weight_shape, dims=(0,))


def embedding_op(name: str, face: str, kind: type[Exception], samples: Callable) -> Callable:
    """An op that reads rows; for rows that are not there it raises `kind`, in the name of `face`."""

    def run(
        weight: np.ndarray, indices: np.ndarray, *, padding_idx: int, scale_grad_by_freq: bool
    ) -> np.ndarray:
        rows = weight.shape[0]
        if are_outside(indices, rows):
            bad = indices[(indices < 0) | (indices >= rows)].flat[0]
            raise error(kind, face, f"index out of range in self: {bad} is no row of {rows}")
        return weight.take(indices, axis=0) if weight.flags.c_contiguous else weight[indices]

    return fused(
        name,
        lambda weight, indices, **_: index_op(weight, indices, dims=(0,)),
        spec=embedding_spec,
        run=run,
        vjp=(embedding_vjp, None),
        samples=samples,
        rounds=False,
    )


rows_of = embedding_op("embedding", "embedding", IndexError, embedding_samples)


@face(rows_of, spaces=("nn.functional",))
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight`, one per index. The gradient is dense; `sparse` is accepted and changes nothing."""
    padding = padding_row("embedding", padding_idx, weight, AssertionError)
    if max_norm is not None:
        renormalise(weight, input, max_norm, norm_type)
    return rows_of(weight, input, padding_idx=padding, scale_grad_by_freq=scale_grad_by_freq)


def padding_row(op: str, padding_idx: int | None, weight: Any, wrong: type[Exception]) -> int:
    """The padding row counted from the front; -1 when there is none."""
    if padding_idx is None:
        return -1
    check_tensor(op, weight, "weight")
    rows = weight._form.shape[0]
    if not -rows <= padding_idx < rows:
        raise error(
            wrong, op, f"padding_idx must be within the number of embeddings, {rows}", padding_idx=padding_idx
        )
    return padding_idx % rows


def renormalise(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows about to be read down to `max_norm`, in place and outside the graph."""
    with no_grad():
        places = indices.reshape(-1)
        rows = weight[places]
        norms = rows.norm(norm_type, dim=-1, keepdim=True)
        weight.index_put_((places,), rows.where(norms <= max_norm, rows * (max_norm / (norms + 1e-7))))


# Bags ------------------------------------------------------------------------------------------------------


def bag_samples() -> Iterator[Sample]:
    indices, offsets = np.array([0, 2, 2, 1, 3]), np.array([0, 2, 2])
    for how in ("sum", "mean", "max"):
        yield Sample(indices, real(4, 3), offsets, mode=how)
        yield Sample(np.array([[0, 1], [3, 2]]), real(4, 3), mode=how, padding_idx=1)
    yield Sample(indices, real(4, 3), np.array([0, 2, 5]), mode="sum", include_last_offset=True)
    yield Sample(indices, real(4, 3), offsets, mode="sum", per_sample_weights=real(5, seed=1))
    yield Fails(ValueError, indices, real(4, 3))
    yield Fails(ValueError, indices, real(4, 3), offsets, mode="median")
    yield Fails(ValueError, np.array([[0, 1]]), real(4, 3), np.array([0]))
    yield Fails(RuntimeError, indices, real(4, 3), np.array([1, 2]))
    yield Fails(RuntimeError, np.array([[4]]), real(4, 3))


def bag_row_samples() -> Iterator[Sample]:
    weight, indices = real(4, 3), np.array([0, 2, 2])
    yield Sample(weight, indices, padding_idx=-1, scale_grad_by_freq=False)
    yield Conventional(weight, indices, padding_idx=2, scale_grad_by_freq=True)
    yield Fails(RuntimeError, weight, np.array([4]), padding_idx=-1, scale_grad_by_freq=False)


def run_bag_of(offsets: np.ndarray, *, count: int) -> np.ndarray:
    if offsets.size and offsets[0]:
        rule = f"offsets[0] has to be 0, the first bag starts at the first index; got {offsets[0]}"
        raise error(RuntimeError, "embedding_bag", rule)
    if offsets.size and offsets[-1] > count:
        rule = f"offsets[-1] can not be greater than input's length {count}, but got {offsets[-1]}"
        raise error(RuntimeError, "embedding_bag", rule)
    if (offsets[1:] < offsets[:-1]).any():
        raise error(RuntimeError, "embedding_bag", "offsets have to be in ascending order")
    return np.searchsorted(offsets, np.arange(count), side="right") - 1


def run_bag_winners(rows: np.ndarray, bags: np.ndarray, used: np.ndarray, *, count: int) -> np.ndarray:
    winners = np.zeros((count, rows.shape[1]), np.int64)
    for bag in range(count):
        inside = np.flatnonzero((bags == bag) & used)
        if inside.size:
            winners[bag] = inside[rows[inside].argmax(axis=0)]
    return winners


bag_rows = embedding_op("bag_rows", "embedding_bag", RuntimeError, bag_row_samples)
bag_of = opaque(
    "bag_of",
    spec=lambda offsets, *, count: Spec((count,), dtypes.int64),
    run=run_bag_of,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(np.array([0, 2, 2]), count=5), Fails(RuntimeError, np.array([1]), count=5)]),
)
# For each bag and column, the row with the largest entry: what `max` takes, and sends its gradient to.
bag_winners = opaque(
    "bag_winners",
    spec=lambda rows, bags, used, *, count: Spec((count, rows._form.shape[1]), dtypes.int64),
    run=run_bag_winners,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(real(4, 3), np.array([0, 0, 2, 2]), np.ones(4, np.bool_), count=3)]),
)


@composite(bag_samples, spaces=("nn.functional",))
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of `weight`; a bag is a row of the input, or lies between offsets."""
    input, weight = old_order(input, weight)
    check_bag(input, offsets, mode, sparse, scale_grad_by_freq, per_sample_weights)
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        rule = "expected weight and per_sample_weights to have the same dtype"
        raise error(RuntimeError, "embedding_bag", rule, weight=weight, per_sample_weights=per_sample_weights)
    padding = padding_row("embedding_bag", padding_idx, weight, RuntimeError)
    indices = input.reshape(-1)
    if offsets is None:
        count, width = input._form.shape
        bags = input.new_tensor(np.repeat(np.arange(count), width))
    else:
        count = offsets._form.shape[0]
        bags = bag_of(offsets, count=indices._form.shape[0])
    if max_norm is not None:
        renormalise(weight, indices, max_norm, norm_type)
    rows = bag_rows(weight, indices, padding_idx=padding, scale_grad_by_freq=scale_grad_by_freq)
    used = indices != padding
    if mode == "max":
        result = bag_max(rows, bags, used, count)
    else:
        result = bag_sum(rows, bags, used, count, per_sample_weights, mean=mode == "mean")
    return result[:-1] if include_last_offset else result  # what follows the last offset is in no bag


def bag_max(rows: Tensor, bags: Tensor, used: Tensor, count: int) -> Tensor:
    if not rows._form.shape[0]:
        return rows.new_zeros(count, rows._form.shape[1])
    winners = bag_winners(rows.detach(), bags, used, count=count)
    empty = bag_sizes(bags, used, count) == 0
    return rows.gather(0, winners).masked_fill(empty.unsqueeze(-1), 0)


def bag_sum(
    rows: Tensor, bags: Tensor, used: Tensor, count: int, weights: Tensor | None, *, mean: bool
) -> Tensor:
    if weights is not None:
        rows = rows * weights.reshape(-1, 1)
    rows = rows.masked_fill(used.logical_not().unsqueeze(-1), 0)
    total = sum_at(rows, bags, shape=(count, rows._form.shape[1]), dims=(0,))
    if not mean:
        return total
    sizes = bag_sizes(bags, used, count)
    return total / sizes.masked_fill(sizes == 0, 1).to(total.dtype).unsqueeze(-1)


def bag_sizes(bags: Tensor, used: Tensor, count: int) -> Tensor:
    return sum_at(used.to(dtypes.int64), bags, shape=(count,), dims=(0,))


def old_order(input: Any, weight: Any) -> tuple[Tensor, Tensor]:
    """Older programs passed the weight first."""
    check_tensor("embedding_bag", input)
    check_tensor("embedding_bag", weight, "weight")
    if weight.dtype is dtypes.int64 and input.dtype.is_floating_point:
        rule = "embedding_bag(weight, input, ...) is deprecated; it is embedding_bag(input, weight, ...)."
        warnings.warn(rule, UserWarning, stacklevel=3)
        return weight, input
    return input, weight


def check_bag(
    input: Tensor, offsets: Tensor | None, how: str, sparse: bool, scale: bool, weights: Tensor | None
) -> None:
    """Raises what PyTorch raises for arguments that do not go together."""

    def refuse(kind: type[Exception], rule: str) -> None:
        raise error(kind, "embedding_bag", rule, input=input, offsets=offsets)

    if weights is not None and weights._form.shape != input._form.shape:
        refuse(ValueError, "per_sample_weights must have the same shape as the input")
    if input._form.ndim not in (1, 2):
        refuse(ValueError, "input has to be a 1D or 2D tensor")
    if input._form.ndim == 2 and offsets is not None:
        refuse(ValueError, "if input is 2D, its rows are the bags and offsets has to be None")
    if input._form.ndim == 1 and (not isinstance(offsets, Tensor) or offsets._form.ndim != 1):
        refuse(ValueError, "offsets has to be a 1D tensor")
    if how not in ("sum", "mean", "max"):
        refuse(ValueError, f"mode has to be one of sum, mean or max, not {how!r}")
    if how == "max" and (scale or sparse):
        refuse(
            ValueError, "max mode supports neither scaling the gradient by the frequency nor sparse weights"
        )
    if weights is not None and how != "sum":
        refuse(NotImplementedError, f"per_sample_weights is only supported for mode='sum', not {how!r}")
    check_index("embedding_bag", input, INTEGERS, matrix=None)


# One-hot ---------------------------------------------------------------------------------------------------


def one_hot_samples() -> Iterator[Sample]:
    yield Sample(np.array([0, 2, 1]))
    yield Sample(np.array([[0, 2], [1, 1]]), 4)
    yield Sample(np.array(1), num_classes=3)
    yield Sample(np.zeros(0, np.int64), 3)
    yield Fails(RuntimeError, np.array([0, 3]), 3)
    yield Fails(RuntimeError, np.array([0, -1]))
    yield Fails(RuntimeError, real(2))
    yield Fails(RuntimeError, np.zeros(0, np.int64))


def run_one_hot(classes: np.ndarray, *, num_classes: int) -> np.ndarray:
    if classes.size and classes.min() < 0:
        raise error(RuntimeError, "one_hot", "class values must be non-negative")
    if classes.size and classes.max() >= num_classes:
        raise error(RuntimeError, "one_hot", f"class values must be smaller than num_classes, {num_classes}")
    return (classes[..., None] == np.arange(num_classes)).astype(np.int64)


ones_at = fused(
    "one_hot",
    lambda classes, *, num_classes: classes.unsqueeze(-1) == arange(num_classes, device=classes.device),
    spec=lambda classes, *, num_classes: Spec((*classes._form.shape, num_classes), dtypes.int64),
    run=run_one_hot,
    vjp=NO_GRAD,
    samples=one_hot_samples,
)


@face(ones_at, spaces=("nn.functional",))
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dimension with a one at each class; -1 takes the largest class there is."""
    check_index("one_hot", tensor, (dtypes.int64,), matrix=None)
    if num_classes == -1:
        if mode.recorder is not None:
            mode.recorder.refuse("one_hot")
        if not tensor._form.size:
            raise error(RuntimeError, "one_hot", "can not infer the number of classes from an empty tensor")
        num_classes = int(tensor.max()) + 1
    return ones_at(tensor, num_classes=max(num_classes, 0))
