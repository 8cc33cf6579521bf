"""Names of torch.optim.optimizer that start with an underscore: optimizers outside PyTorch are written with them.

They decide whether a step records gradients and whether it works on lists of tensors. Read next:
optim/optimizer.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from cleargrad.autograd.modes import is_grad_enabled, set_grad_enabled
from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor
from cleargrad.ops.complex_numbers import view_as_real


def _use_grad_for_differentiable(func: Callable) -> Callable:
    """A decorator of `step`: gradients are recorded when the optimizer is differentiable, and only then."""

    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = is_grad_enabled()
        set_grad_enabled(self.defaults["differentiable"])
        try:
            return func(self, *args, **kwargs)
        finally:
            set_grad_enabled(before)

    return step


def _default_to_fused_or_foreach(
    params: Sequence[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """(fused, foreach) where the program did not choose: neither, as on any CPU."""
    return False, False


def _get_value(x: Any) -> Any:
    """A number from a number or a tensor with one element."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _dispatch_sqrt(x: Any) -> Any:
    return x.sqrt() if isinstance(x, Tensor) else math.sqrt(x)


def _disable_dynamo_if_unsupported(single_tensor_fn: Callable | None = None) -> Callable:
    return lambda func: func


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _get_scalar_dtype(is_fused: bool | None = None) -> Any:
    wide = not is_fused and dtypes.get_default_dtype() is dtypes.float64
    return dtypes.float64 if wide else dtypes.float32


def _to_scalar(x: Any) -> Any:
    """A tensor with one element without its dimensions; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.ndim else x


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Complex tensors of the lists become views of pairs of reals."""
    for place, parameter in enumerate(params):
        if parameter.is_complex():
            for tensors in (params, *state_and_grads):
                tensors[place] = view_as_real(tensors[place])


_params_doc = _foreach_doc = _fused_doc = _capturable_doc = _differentiable_doc = _maximize_doc = ""
