"""Clipping: gradients made smaller when they are too large, together by their norm or each by its value.

The scale is min(1, max_norm / (norm + 1e-6)) and is always multiplied, so nothing waits for the norm unless
`error_if_nonfinite` asks for it. Read next: nn/utils/convert_parameters.py.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.bounds import clamp
from cleargrad.ops.creation import tensor
from cleargrad.ops.joining import stack
from cleargrad.ops.norms import total_norm as total_norm_of
from cleargrad.ops.norms import vector_norm

Tensors = Tensor | Iterable[Tensor]


@no_grad()
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales all gradients so that their norm as one vector is at most `max_norm`; returns that norm."""
    if isinstance(parameters, types.GeneratorType):
        parameters = list(parameters)
        if not parameters:
            rule = "`parameters` is an empty generator, no gradient clipping will occur."
            warnings.warn(rule, stacklevel=3)
    parameters = listed(parameters)
    total_norm = get_total_norm(gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total_norm, foreach)
    return total_norm


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors as one vector: the norm of their norms."""
    tensors = listed(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return tensor(0.0)
    if all(each.dtype is tensors[0].dtype and each._form.size for each in tensors):
        total = total_norm_of(*tensors, ord=norm_type)
    else:
        total = vector_norm(stack([vector_norm(each, norm_type) for each in tensors]), norm_type)
    if error_if_nonfinite and not total.isfinite():
        rule = (
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped"
        )
        norms = [vector_norm(each, norm_type) for each in tensors]
        bad = ", ".join(f"{i} {tuple(tensors[i].shape)}" for i, n in enumerate(norms) if not n.isfinite())
        fix = "to scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        raise error(RuntimeError, "clip_grad_norm_", rule, gradients=bad or "only their sum", fix=fix)
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales all gradients by min(1, max_norm / (total_norm + 1e-6))."""
    grads = gradients(listed(parameters))
    if not grads:
        return
    scale = clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    if mode.waiter is not None and mode.waiter.scale(grads, scale):
        return  # all of them in one step
    for grad in grads:
        grad.mul_(scale)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Brings every element of every gradient between −clip_value and clip_value."""
    clip_value = float(clip_value)
    for grad in gradients(listed(parameters)):
        grad.clamp_(min=-clip_value, max=clip_value)


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of clip_grad_norm_."""
    rule = "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`."
    warnings.warn(rule, FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def gradients(parameters: list[Tensor]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]
