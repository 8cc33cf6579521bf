"""torch.nn.utils.weight_norm: length and direction of a weight apart, by a hook that runs before forward.

The newer form is in nn/utils/parametrizations.py. Read next: nn/utils/spectral_norm.py.
"""

from __future__ import annotations

import warnings
from typing import Any

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn.module import Module
from cleargrad.nn.parameter import Parameter, is_lazy


def norm_except_dim(v: Tensor, dim: int) -> Tensor:
    """The norm over all dimensions but one, which stay as ones; over all of them for −1."""
    if dim == -1:
        return v.norm()
    return v.norm(2, [axis for axis in range(v.ndim) if axis != dim % v.ndim], keepdim=True)


def normed(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """v with the length g."""
    return v * (g / norm_except_dim(v, dim))


class WeightNorm:
    """The hook: before forward, the weight is computed from `name_g` and `name_v`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return normed(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Splits a weight and registers the hook."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of "
            "`torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                rule = f"Cannot register two weight_norm hooks on the same parameter {name}"
                raise error(RuntimeError, "weight_norm", rule)
        made = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            rule = "The module passed to `WeightNorm` can't have uninitialized parameters"
            raise error(ValueError, "weight_norm", rule, fix="run a dummy forward first")
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, made.dim).detach()))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, made.compute_weight(module))
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Module) -> None:
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Trains `name_g`, the length of a weight, and `name_v`, its direction, instead of the weight."""
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Makes the weight an ordinary parameter again."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise error(ValueError, "remove_weight_norm", f"weight_norm of '{name}' not found in {module}")
