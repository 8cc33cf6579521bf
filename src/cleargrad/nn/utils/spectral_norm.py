"""torch.nn.utils.spectral_norm: a weight over its largest singular value, by a hook that runs before forward.

The newer form is in nn/utils/parametrizations.py. Read next: nn/utils/stateless.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad.autograd.modes import no_grad
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import functional as F
from cleargrad.nn.module import Module
from cleargrad.nn.parameter import Parameter, is_lazy


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix whose rows are what `dim` counts."""
    if dim:
        weight = weight.permute(dim, *[axis for axis in range(weight.ndim) if axis != dim])
    return weight.flatten(1)


def usual_dim(module: Module) -> int:
    """The dimension that counts outputs: the first, but the second for transposed convolutions."""
    from cleargrad.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


class SpectralNorm:
    """The hook: before forward, `name` becomes `name_orig` over its largest singular value."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        self.name = name
        self.dim = dim
        if n_power_iterations <= 0:
            rule = (
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
            raise error(ValueError, "spectral_norm", rule)
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        return matrix_of(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = matrix_of(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t() @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the next call writes them in place
        return weight / u.dot(matrix @ v)

    def remove(self, module: Module) -> None:
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for suffix in ("_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Moves a weight to `name_orig` and registers the hook."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                rule = f"Cannot register two spectral_norm hooks on the same parameter {name}"
                raise error(RuntimeError, "spectral_norm", rule)
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            rule = f"`SpectralNorm` cannot be applied as parameter `{name}` is None"
            raise error(ValueError, "spectral_norm", rule)
        if is_lazy(weight):
            rule = "The module passed to `SpectralNorm` can't have uninitialized parameters"
            raise error(ValueError, "spectral_norm", rule, fix="run a dummy forward first")
        with no_grad():
            rows, columns = matrix_of(weight, dim).shape
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(made)
        return made


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a weight by its largest singular value, estimated by power iterations."""
    SpectralNorm.apply(module, name, n_power_iterations, usual_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Makes the weight an ordinary parameter again."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise error(ValueError, "remove_spectral_norm", f"spectral_norm of '{name}' not found in {module}")
