"""torch.nn.init: starting values for parameters, drawn or filled in place; PyTorch's numbers for every seed.

Read next: random.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.random_tensors import randperm
from cleargrad.random import Generator

# Gains -----------------------------------------------------------------------------------------------------

GAINS = {"sigmoid": 1, "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 3 / 4}
LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a layer's output must grow to keep its variance behind the nonlinearity."""
    if nonlinearity in LINEAR:
        return 1
    if nonlinearity in GAINS:
        return GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        known = ", ".join((*LINEAR, *GAINS, "leaky_relu"))
        raise error(ValueError, "calculate_gain", f"Unsupported nonlinearity {nonlinearity}", known=known)
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, (int, float)):
        raise error(ValueError, "calculate_gain", f"negative_slope {slope} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs feed one output of a layer with this weight, and the other way round."""
    if tensor.ndim < 2:
        rule = "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        raise error(ValueError, "init", rule, tensor=tensor)
    outputs, inputs, *window = tensor.shape
    return inputs * math.prod(window), outputs * math.prod(window)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    fans = dict(zip(("fan_in", "fan_out"), _calculate_fan_in_and_fan_out(tensor), strict=True))
    if mode.lower() not in fans:
        raise error(ValueError, "init", f"Mode {mode} not supported, please use one of {list(fans)}")
    return fans[mode.lower()]


# Draws -----------------------------------------------------------------------------------------------------


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform numbers from a to b."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal numbers."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal numbers on condition that they lie between a and b: those outside are drawn again."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    with no_grad():
        # Rejecting normals is wasteful when few of them lie inside; then uniforms are thinned out instead.
        if below(b) - below(a) > 0.3:
            result = _redraw_outside(tensor, mean, std, a, b, generator)
        else:
            result = _thin_out(tensor, mean, std, a, b, generator)
        return tensor if result is tensor else tensor.copy_(result)


def _redraw_outside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
    result = tensor.normal_(mean, std, generator=generator)
    while (outside := (result < low) | (result > high)).any():
        fresh = result.clone().normal_(mean, std, generator=generator)
        result = fresh.where(outside, result)
    return result


def _thin_out(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """A uniform number stays with a probability proportional to the normal density there."""
    mode = max(a, min(mean, b))
    log_peak = -0.5 * ((mode - mean) / std) ** 2

    def refused(candidates: Tensor) -> Tensor:
        log_density = candidates.sub(mean).div(std).pow(2).mul(-0.5).sub(log_peak)
        return candidates.clone().uniform_(generator=generator).log() > log_density

    result = tensor.uniform_(a, b, generator=generator)
    pending = refused(result)
    while pending.any():
        candidates = result.clone().uniform_(a, b, generator=generator)
        result = candidates.where(pending, result)
        pending = pending & refused(candidates)
    return result


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform numbers that keep variances forwards and backwards: std = gain · √(2 / (fan_in + fan_out))."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal numbers with std = gain · √(2 / (fan_in + fan_out))."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform numbers for layers behind a rectifier: std = gain / √fan."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal numbers for layers behind a rectifier: std = gain / √fan."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A random (semi-)orthogonal matrix, times gain; dimensions behind the first count as columns."""
    if tensor.ndim < 2:
        raise error(ValueError, "orthogonal_", "Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    from cleargrad import linalg

    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        matrix = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = linalg.qr(matrix if rows >= columns else matrix.t())
        # The signs of R's diagonal make Q uniform among all orthogonal matrices (Mezzadri 2007).
        q = q * r.diagonal().sign()
        q = q if rows >= columns else q.t()
        return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal numbers, of which the fraction `sparsity` of each column is zero."""
    if tensor.ndim != 2:
        raise error(ValueError, "sparse_", "Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows)[:zeros], column] = 0  # PyTorch takes these from the default generator
    return tensor


# Constants -------------------------------------------------------------------------------------------------


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.ndim != 2:
        raise error(ValueError, "eye_", "Only tensors with 2 dimensions are supported")
    zeros_(tensor)
    with no_grad():
        for k in range(min(tensor.shape)):
            tensor[k, k] = 1
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that hands its input channels on, as far as there are output channels."""
    if tensor.ndim not in (3, 4, 5):
        raise error(ValueError, "dirac_", "Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *window = tensor.shape
    if outputs % groups:
        raise error(ValueError, "dirac_", "dim 0 must be divisible by groups", groups=groups, tensor=tensor)
    zeros_(tensor)
    centre = tuple(extent // 2 for extent in window)
    per_group = outputs // groups
    with no_grad():
        for group in range(groups):
            for channel in range(min(per_group, inputs)):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


# Old names -------------------------------------------------------------------------------------------------


def _old_name(function: Callable) -> Callable:
    new = function.__name__
    old = new[:-1]

    def deprecated(*args: Any, **kwargs: Any) -> Any:
        text = f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`."
        warnings.warn(text, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    deprecated.__name__ = deprecated.__qualname__ = old
    return deprecated


uniform = _old_name(uniform_)
normal = _old_name(normal_)
constant = _old_name(constant_)
eye = _old_name(eye_)
dirac = _old_name(dirac_)
xavier_uniform = _old_name(xavier_uniform_)
xavier_normal = _old_name(xavier_normal_)
kaiming_uniform = _old_name(kaiming_uniform_)
kaiming_normal = _old_name(kaiming_normal_)
orthogonal = _old_name(orthogonal_)
sparse = _old_name(sparse_)
