"""torch.nn.utils.parametrizations: weights of unit norm, of spectral norm one, and orthogonal ones.

Read next: nn/utils/weight_norm.py.
"""

from __future__ import annotations

from typing import Any

from cleargrad import linalg
from cleargrad.autograd.modes import no_grad
from cleargrad.core.dtype import finfo
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import functional as F
from cleargrad.nn.module import Module
from cleargrad.nn.utils.parametrize import register_parametrization
from cleargrad.nn.utils.spectral_norm import matrix_of, usual_dim
from cleargrad.nn.utils.weight_norm import norm_except_dim, normed
from cleargrad.ops.joining import cat
from cleargrad.ops.matrix_functions import matrix_exp
from cleargrad.ops.random_tensors import randn
from cleargrad.ops.ranges import eye
from cleargrad.ops.reflections import geqrf


def tensor_of(module: Module, name: str) -> Tensor:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        rule = f"Module '{module}' has no parameter or buffer with name '{name}'"
        raise error(ValueError, "parametrizations", rule)
    return found


# Weight norm -----------------------------------------------------------------------------------------------


class _WeightNorm(Module):
    """A weight from its length g and its direction v."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return normed(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Trains the length of a weight (original0) and its direction (original1) instead of the weight."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_old_names(state: Any, prefix: str, *_: Any) -> None:
        for number, old in enumerate(("_g", "_v")):
            key = f"{prefix}{name}{old}"
            if key in state:
                state[f"{prefix}parametrizations.{name}.original{number}"] = state.pop(key)

    module._register_load_state_dict_pre_hook(read_old_names)
    return module


# Spectral norm ---------------------------------------------------------------------------------------------


class _SpectralNorm(Module):
    """A weight over its largest singular value, which is followed by power iterations."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        rank = weight.ndim
        if not -rank <= dim < rank:
            raise error(IndexError, "spectral_norm", f"dimension out of range: {dim}", weight=weight)
        if n_power_iterations <= 0:
            rule = (
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
            raise error(ValueError, "spectral_norm", rule)
        self.dim = dim % rank
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if rank > 1:
            matrix = matrix_of(weight, self.dim)
            for name, size in (("_u", matrix.shape[0]), ("_v", matrix.shape[1])):
                start = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
            self._power_method(matrix, 15)

    @no_grad()
    def _power_method(self, matrix: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.mH @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next call writes them in place
        return weight / u.vdot(matrix @ v)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a weight by its largest singular value."""
    weight = tensor_of(module, name)
    dim = usual_dim(module) if dim is None else dim
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


# Orthogonal matrices ---------------------------------------------------------------------------------------


def is_orthogonal(matrix: Tensor, eps: float | None = None) -> bool:
    """Whether the columns are orthonormal."""
    n, k = matrix.shape[-2:]
    if n < k:
        matrix, n, k = matrix.mT, k, n
    identity = eye(k, dtype=matrix.dtype, device=matrix.device)
    eps = 10 * n * finfo(matrix.dtype).eps if eps is None else eps
    return (matrix.mH @ matrix).allclose(identity.expand(*matrix.shape[:-2], k, k), atol=eps)


def make_orthogonal(matrix: Tensor) -> Tensor:
    """The orthogonal factor of a matrix, chosen so that the triangular one has a positive diagonal."""
    reflections, tau = geqrf(matrix)
    return linalg.householder_product(reflections, tau) * reflections.diagonal(
        dim1=-2, dim2=-1
    ).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """An orthogonal matrix as a function of a free one."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            rule = "The householder parametrization does not support complex tensors."
            raise error(ValueError, "orthogonal", rule)
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        X = X.mT if wide else X
        if self.orthogonal_map == "householder":
            Q = self._from_reflections(X)
        else:
            Q = self._from_skew(X)
        if "base" in self._buffers:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def _from_reflections(self, X: Tensor) -> Tensor:
        A = X.tril(-1)
        tau = 2.0 / (1.0 + (A * A).sum(-2))
        return linalg.householder_product(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def _from_skew(self, X: Tensor) -> Tensor:
        n, k = X.shape[-2:]
        X = X.tril()
        if n != k:
            X = cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], -1)
        A = X - X.mH
        if self.orthogonal_map == "matrix_exp":
            Q = matrix_exp(A)
        else:
            identity = eye(n, dtype=A.dtype, device=A.device)
            Q = linalg.solve(identity - 0.5 * A, identity + 0.5 * A)
        return Q if n == k else Q[..., :k]

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            rule = f"Expected a matrix or batch of matrices of shape {self.shape}."
            raise error(ValueError, "orthogonal", rule, given=Q)
        given, wide = Q, Q.shape[-2] < Q.shape[-1]
        Q = Q.mT if wide else Q
        n, k = Q.shape[-2:]
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                rule = (
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations "
                    "when use_trivialization=False."
                )
                raise error(NotImplementedError, "orthogonal", rule)
            A, tau = geqrf(Q)
            signs = A.diagonal(dim1=-2, dim2=-1)
            signs.sign_()
            signs[tau == 0] *= -1  # a reflection with tau 0 is the identity, whose sign is the other one
            return A.mT if wide else A
        if n == k:
            self.base = Q.clone() if is_orthogonal(Q) else make_orthogonal(Q)
        else:
            extra = randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            self.base = make_orthogonal(cat([Q, extra], -1))
        start = given.new_zeros(given.shape)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Makes a weight orthogonal (its rows, when it is wide)."""
    weight = tensor_of(module, name)
    if weight.ndim < 2:
        rule = f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        raise error(ValueError, "orthogonal", rule)
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1] or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        rule = 'orthogonal_map has to be one of "matrix_exp", "cayley", "householder"'
        raise error(ValueError, "orthogonal", rule, given=orthogonal_map)
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    register_parametrization(module, name, made, unsafe=True)
    return module
