"""linear_cross_entropy: cross-entropy behind a linear layer, as one function.

Read next: ops/margin_loss.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleargrad.core.dtype import FLOAT
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.cross_entropy import cross_entropy
from cleargrad.ops.declare import composite
from cleargrad.ops.linear import linear
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

POLICIES = ("accurate", "balanced", "compact", "auto")


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """How PyTorch would divide the batch; accepted, and without influence on the result."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        name, method, size = "LinearCrossEntropyOptions", self.chunking_method, self.batch_chunk_size
        if method is not None and method != "auto" and not method.startswith("aspect_ratio"):
            raise error(ValueError, name, f"invalid chunking_method: {method!r}")
        if self.acc_policy not in POLICIES:
            raise error(ValueError, name, f"invalid acc_policy: {self.acc_policy!r}")
        if size is not None and size <= 0:
            raise error(ValueError, name, f"batch_chunk_size must be positive int or None, got {size}")


def samples() -> Iterator[Sample]:
    x, weight, target = real(5, 4), real(3, 4, seed=1), np.array([0, 2, 1, 0, 2])
    for reduction in ("mean", "sum", "none"):
        yield Sample(x, weight, target, reduction=reduction)
    yield Sample(x, weight, target, linear_bias=real(3, seed=2), ignore_index=2, label_smoothing=0.1)
    yield Sample(real(4), weight, np.array(1))
    yield Sample(x, real(3, 2, 4, seed=1), whole(5, 2, high=3))
    yield Fails(RuntimeError, x, real(3, 5, seed=1), target)


@composite(samples, spaces=("nn.functional",))
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """cross_entropy of linear(input); the weight may have dimensions between classes and features."""
    check_tensor("linear_cross_entropy", target, "target")
    classes = linear_weight.shape[:-1]
    if len(classes) > 1:
        linear_weight = linear_weight.reshape(-1, linear_weight.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight, linear_bias)
    if len(classes) > 1:
        logits = logits.reshape(*logits.shape[:-1], *classes)
    if ignore_index is None:
        ignore_index = -100
    elif target.dtype.category == FLOAT:
        rule = "ignore_index is not supported for floating point target"
        raise error(RuntimeError, "linear_cross_entropy", rule)
    return cross_entropy(
        logits,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
