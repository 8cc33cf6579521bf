"""Norms whose weights belong to channels: batch, instance and group norm.

`groups` says what shares a mean and a variance: None, all samples of a channel (batch norm); a number, groups
of neighbouring channels in each sample (group norm). Instance norm is batch norm of a batch folded into its
channels. The formula of the gradient is in ops/normalization.py. Read next: ops/dropout.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec, count
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, fused, wide
from cleargrad.ops.normalization import (
    check_dtypes,
    gradients,
    normalized,
    public_statistics,
    statistics,
    statistics_dtype,
)
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# The op ----------------------------------------------------------------------------------------------------


def folded(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(samples, channels, positions)."""
    return shape[0], shape[1], count(shape[2:])


def channels_spec(
    x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, *, groups: Any, eps: float
) -> list:
    shape = x._form.shape
    statistics = Spec(shape[1:2] if groups is None else (shape[0], groups), statistics_dtype(x))
    return [Spec(shape, x.dtype), statistics, statistics]


def channels_gradient_spec(g: Tensor, x: Tensor, *others: Any, **_: Any) -> list[Spec]:
    kind = statistics_dtype(x)
    parameter = Spec(x._form.shape[1:2], kind)
    return [Spec(x._form.shape, kind), parameter, parameter]


class Fold:
    """How x is folded for its statistics: its shape then, their axes and shape, and that of weights."""

    shape: tuple[int, ...]
    statistics: tuple[int, ...]

    def __init__(self, x: Tensor, groups: int | None):
        samples, channels, positions = folded(x._form.shape)
        if groups is None:
            self.shape = (samples, channels, positions)
            self.axes, self.statistics = (0, 2), (1, channels, 1)
        else:
            self.shape = (samples, groups, channels // groups, positions)
            self.axes, self.statistics = (2, 3), (samples, groups, 1, 1)
        self.weights = (*self.shape[1:-1], 1)

    def weight(self, parameter: Tensor | None) -> Tensor | None:
        return None if parameter is None else parameter.reshape(self.weights)


def channels_parts(
    x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, *, groups: int | None, eps: float
) -> tuple:
    fold = Fold(x, groups)
    values = x.reshape(fold.shape)
    if mean is None:
        mean, variance = statistics(values, fold.axes)
    kept = (mean.reshape(fold.statistics), variance.reshape(fold.statistics))
    out = normalized(values, fold.weight(weight), fold.weight(bias), *kept, eps)
    shape = x._form.shape[1:2] if groups is None else (x._form.shape[0], groups)
    return out.reshape(x._form.shape), mean.reshape(shape), variance.reshape(shape)


def channels_gradient_parts(
    g: Tensor, x: Tensor, weight: Any, mean: Tensor, variance: Tensor,
    *, groups: int | None, eps: float, constant: bool,
) -> tuple:  # fmt: skip
    fold = Fold(x, groups)
    grad, values, factors = g.reshape(fold.shape), x.reshape(fold.shape), fold.weight(weight)
    mean, variance = mean.reshape(fold.statistics), variance.reshape(fold.statistics)
    if constant:
        scale = (variance + eps).rsqrt()
        dx = (grad if factors is None else grad * factors) * scale
        dweight, dbias = grad * (values - mean) * scale, grad
    else:
        dx, dweight, dbias = gradients(grad, values, factors, mean, variance, fold.axes, eps)
    sums = [part.sum_to_size(fold.weights).reshape(x._form.shape[1:2]) for part in (dweight, dbias)]
    return dx.reshape(x._form.shape), *sums


def channels_gradient_samples() -> Iterator[Sample]:
    saved = (real(3, 4, seed=1), real(4), real(4), real(4, low=1))
    yield Sample(real(3, 4), *saved, groups=None, eps=0.1, constant=False)
    yield Sample(real(3, 4), *saved, groups=None, eps=0.1, constant=True)
    saved = (real(3, 4, 2, seed=1), real(4), real(3, 2), real(3, 2, low=1))
    yield Sample(real(3, 4, 2), *saved, groups=2, eps=0.1, constant=False)


channels_gradient = fused(
    "channels_gradient",
    channels_gradient_parts,
    spec=channels_gradient_spec,
    vjp=NO_GRAD,
    samples=channels_gradient_samples,
    outputs=3,
)


def channels_vjp(
    g: list, x: Tensor, weight: Any, bias: Any, mean: Any, out1: Tensor, out2: Tensor,
    *, groups: int | None, eps: float,
) -> tuple:  # fmt: skip
    attrs: dict[str, Any] = {"groups": groups, "eps": eps, "constant": mean is not None}
    saved: tuple = (out1, out2)
    if mode.grad:  # it will itself be differentiated, also through the statistics
        x, factors = wide(x), None if weight is None else wide(weight)
        if mean is None:
            fold = Fold(x, groups)
            saved = statistics(x.reshape(fold.shape), fold.axes)
        dx, dweight, dbias = channels_gradient_parts(wide(g[0]), x, factors, *saved, **attrs)
    else:
        dx, dweight, dbias = channels_gradient(g[0], x, weight, *saved, **attrs)
    return dx, None if weight is None else dweight, None if bias is None else dbias, None, None


def check_channels(op: str, input: Tensor, **parameters: Tensor | None) -> int:
    """The number of channels, which is the length of every parameter."""
    shape = input._form.shape
    if len(shape) < 2 and input._form.size:
        raise error(IndexError, op, "the input needs a dimension of channels behind the first", input=input)
    channels = shape[1] if len(shape) > 1 else 0
    for name, parameter in parameters.items():
        if parameter is not None and parameter._form.shape != (channels,):
            rule = f"{name} should contain {channels} elements, one for each channel, not {parameter.numel()}"
            facts: dict[str, Any] = {"input": input, name: parameter}
            raise error(RuntimeError, op, rule, **facts)
    return channels


# Batch norm ------------------------------------------------------------------------------------------------


def batch_norm_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), None, None, real(3, seed=1), real(3, seed=2), True)
    yield Sample(real(2, 3, 4), None, None, training=True)
    yield Sample(real(2, 3, 2, 2), None, None, real(3, seed=1), None, True, 0.1, 0.01)
    yield Fails(RuntimeError, real(4, 3), None, None)
    yield Fails(ValueError, real(1, 3), None, None, training=True)
    yield Fails(RuntimeError, real(4, 3), real(2), real(3))
    yield Fails(RuntimeError, real(4, 3), None, None, real(2), training=True)
    yield Fails(NotImplementedError, whole(4, 3), None, None, training=True)


batch_norm_op = fused(
    "native_batch_norm",
    channels_parts,
    spec=channels_spec,
    vjp=channels_vjp,
    samples=batch_norm_samples,
    outputs=3,
    without_grad=(1, 2),
)


def normalize_batch(
    op: str,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The result and the statistics it was made with; in training, running statistics move towards those."""
    check_tensor(op, input)
    check_channels(op, input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    check_dtypes(op, input, weight, bias)
    if input._form.ndim < 2:
        return input.clone(), input.new_empty(0), input.new_empty(0)  # PyTorch takes an empty vector
    if not training:
        for name, running in (("running_mean", running_mean), ("running_var", running_var)):
            if running is None:
                raise error(RuntimeError, op, f"{name} must be defined in evaluation mode")
        return batch_norm_op(input, weight, bias, running_mean, running_var, groups=None, eps=eps)
    out, mean, variance = batch_norm_op(input, weight, bias, None, None, groups=None, eps=eps)
    samples, _, positions = folded(input._form.shape)
    total = samples * positions
    if total == 0:
        return out, mean, variance  # nothing was seen
    with no_grad():
        approach(running_mean, mean, momentum)
        # Running variances are unbiased, those that normalise are not.
        approach(running_var, variance * (total / (total - 1) if total > 1 else math.nan), momentum)
    return out, mean, variance


def approach(running: Tensor | None, value: Tensor, momentum: float) -> None:
    if running is not None:
        running.copy_(running * (1 - momentum) + value * momentum)


def check_several(op: str, shape: tuple[int, ...]) -> None:
    if len(shape) > 0 and shape[0] * count(shape[2:]) == 1:
        rule = f"Expected more than 1 value per channel when training, got input size {list(shape)}"
        raise error(ValueError, op, rule)


@face(batch_norm_op, spaces=("nn.functional",))
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel normalised over all samples and positions, or with running statistics outside training."""
    check_tensor("batch_norm", input)
    if training:
        check_several("batch_norm", input._form.shape)
    if eps < 0 or (training and eps == 0):
        rule = f"batch_norm eps must be positive during training, non-negative otherwise, but got {eps}"
        raise error(ValueError, "batch_norm", rule)
    return normalize_batch(
        "batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def plain_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), real(3, seed=1), real(3, seed=2), None, None, True, 0.1, 0.01)


@composite(lambda: (with_cudnn(sample) for sample in plain_samples()))
def batch_norm_(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """torch.batch_norm: the order of arguments that the C++ side of PyTorch has."""
    return normalize_batch(
        "batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


def with_cudnn(sample: Sample) -> Sample:
    sample.args = (*sample.args, False)
    return sample


@composite(plain_samples, vjp=NO_GRAD)
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch norm with its statistics: the result, means and inverse deviations (empty outside training)."""
    out, mean, variance = normalize_batch(
        "native_batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    return out, *public_statistics(input, weight, mean, variance, eps)


# Instance norm ---------------------------------------------------------------------------------------------


def instance_norm_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3, 4))
    yield Sample(real(2, 3, 2, 2), None, None, real(3, seed=1), real(3, seed=2), eps=0.01)
    yield Fails(ValueError, real(2, 3, 1))
    yield Fails(ValueError, real(2, 3))


def fold_batch(parameter: Tensor | None, samples: int) -> Any:
    return None if parameter is None else parameter.repeat(samples)


def normalize_instances(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    check_tensor("instance_norm", input)
    running = (running_mean, running_var)
    if (running_mean is None) != (running_var is None):
        rule = "running_mean and running_var must either both be None or neither be None"
        raise error(ValueError, "instance_norm", rule)
    if not use_input_stats and running_mean is None:
        rule = "Expected running_mean and running_var to be defined when use_input_stats is false"
        raise error(RuntimeError, "instance_norm", rule)
    names = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    channels = check_channels("instance_norm", input, **names)
    shape = input._form.shape
    parameters = (fold_batch(weight, shape[0]), fold_batch(bias, shape[0]))
    folds = (fold_batch(running_mean, shape[0]), fold_batch(running_var, shape[0]))
    flat = input.reshape(1, shape[0] * channels, *shape[2:])
    out, *_ = normalize_batch("instance_norm", flat, *parameters, *folds, use_input_stats, momentum, eps)
    if use_input_stats:
        with no_grad():
            for target, fold in zip(running, folds, strict=True):
                if target is not None:
                    target.copy_(fold.reshape(shape[0], channels).mean(0))
    return out.reshape(shape)


@composite(instance_norm_samples, spaces=("nn.functional",))
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Each channel of each sample normalised over its positions."""
    check_tensor("instance_norm", input)
    if use_input_stats and count(input._form.shape[2:]) == 1:
        rule = "Expected more than 1 spatial element when training"
        raise error(ValueError, "instance_norm", rule, input=input)
    return normalize_instances(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


@composite(lambda: iter([Sample(real(2, 3, 4), None, None, None, None, True, 0.1, 0.01, False)]))
def instance_norm_(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """torch.instance_norm: the order of arguments that the C++ side of PyTorch has."""
    return normalize_instances(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


# Group norm ------------------------------------------------------------------------------------------------


def group_norm_samples() -> Iterator[Sample]:
    yield Sample(real(2, 4, 3), 2, real(4, seed=1), real(4, seed=2))
    yield Sample(real(2, 4, 2, 2), 4, real(4, seed=1), None, 0.01)
    yield Sample(real(3, 6), 2)
    yield Fails(RuntimeError, real(2, 4, 3), 3)
    yield Fails(RuntimeError, real(2, 4, 3), 2, real(3))
    yield Fails(RuntimeError, real(4), 2)


group_norm_op = fused(
    "native_group_norm",
    channels_parts,
    spec=channels_spec,
    vjp=channels_vjp,
    samples=group_norm_samples,
    outputs=3,
    without_grad=(1, 2),
)


def normalize_groups(
    op: str, input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    channels = check_channels(op, input, weight=weight, bias=bias)
    if groups <= 0 or channels % groups:
        rule = f"the number of channels ({channels}) must be divisible by num_groups ({groups})"
        raise error(RuntimeError, op, rule, input=input)
    check_dtypes(op, input, weight, bias)
    return group_norm_op(input, weight, bias, None, None, groups=groups, eps=eps)


@face(group_norm_op, spaces=("nn.functional", ""))
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Groups of neighbouring channels of each sample, normalised over their channels and positions."""
    check_tensor("group_norm", input)
    shape = input._form.shape
    if len(shape) < 2:
        rule = f"Expected at least 2 dimensions for input tensor but received {len(shape)}"
        raise error(RuntimeError, "group_norm", rule)
    check_several("group_norm", (shape[0] * shape[1] // num_groups, num_groups, *shape[2:]))
    return normalize_groups("group_norm", input, num_groups, weight, bias, eps)[0]


@composite(lambda: iter([Sample(real(2, 4, 3), real(4, seed=1), real(4, seed=2), 2, 4, 3, 2, 0.01)]))
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Group norm with its statistics: the result, the means and the inverse deviations."""
    check_tensor("native_group_norm", input)
    out = normalize_groups("native_group_norm", input, group, weight, bias, eps)[0]
    # PyTorch differentiates these statistics, other than those of layer and batch norm.
    values = wide(input).reshape(N, group, C // group * HxW)
    mean = values.mean(-1)
    variance = ((values - mean.unsqueeze(-1)) ** 2).mean(-1)
    kind = input.dtype if weight is None else weight.dtype
    return out, mean.to(kind), (variance + eps).rsqrt().to(kind)
