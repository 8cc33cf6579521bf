"""Functions of whole matrices: powers, the exponential, and tensors that stand for matrices.

Read next: ops/triangular.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.dtype import NARROW
from cleargrad.core.shape import count
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite, opaque
from cleargrad.ops.joining import cat
from cleargrad.ops.linear_algebra import identity_of, inv, invertible, solve, square_spec
from cleargrad.ops.matmul import adjoint
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor


def power_samples() -> Iterator[Sample]:
    for n in (0, 1, 2, 3, 5, -1, -2):
        yield Sample(invertible(3, 3), n)
    yield Sample(real(2, 2, 2), 4)
    yield Fails(RuntimeError, real(2, 3), 2)


@composite(power_samples, spaces=("", "linalg"), method=True, out=True)
def matrix_power(input: Tensor, n: int) -> Tensor:
    """A multiplied by itself n times, by repeated squaring; negative powers are powers of the inverse."""
    check_tensor("linalg.matrix_power", input)
    shape = input._form.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise error(
            RuntimeError, "linalg.matrix_power", "input must be batches of square matrices", input=input
        )
    if n == 0:
        return identity_of(input)
    if n < 0:
        input, n = inv(input), -n
    result: Any = None
    while True:
        if n & 1:
            result = input if result is None else result @ input
        n >>= 1
        if not n:
            return result.clone() if result is input else result
        input = input @ input


# Padé's numerator of degree 13 and the largest norm for which it is exact to double precision (Higham 2005).
PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
THETA = 5.371920351148152


def run_exponential(A: np.ndarray) -> np.ndarray:
    """exp(A) = exp(A / 2ˢ)^(2ˢ), the inner one by Padé's fraction, in double precision."""
    final = A.dtype
    A = A.astype(np.result_type(final, np.float64), copy=False)
    norm = np.abs(A).sum(-2).max(-1, initial=0)
    squarings = np.ceil(np.log2(np.maximum(norm / THETA, 1))).astype(np.int64)[..., None, None]
    X = A / np.exp2(squarings)
    unit = np.eye(A.shape[-1], dtype=A.dtype)
    even, odd, power = unit * PADE[0], unit * PADE[1], unit
    square = X @ X
    for k in range(2, 14, 2):
        power = power @ square
        even = even + power * PADE[k]
        odd = odd + power * PADE[k + 1]
    odd = X @ odd
    result = np.linalg.solve(even - odd, even + odd)
    for step in range(int(squarings.max(initial=0))):
        result = np.where(squarings > step, result @ result, result)
    return result.astype(final, copy=False)


def exponential_vjp(g: Tensor, A: Tensor) -> Tensor:
    """The derivative of exp at Aᴴ in the direction g is a block of exp([[Aᴴ, g], [0, Aᴴ]])."""
    n = A._form.shape[-1]
    upper = cat([adjoint(A), g], -1)
    lower = cat([(g * 0), adjoint(A)], -1)
    return exponential(cat([upper, lower], -2))[..., :n, n:]


exponential = opaque(
    "linalg_matrix_exp",
    spec=square_spec("linalg.matrix_exp"),
    run=run_exponential,
    vjp=exponential_vjp,
    samples=lambda: iter([Sample(real(2, 2)), Sample(real(2, 3, 3) * 3)]),
)


def exponential_samples() -> Iterator[Sample]:
    yield Sample(real(3, 3))
    yield Sample(real(2, 2, 2))
    yield Sample(real(2, 2) * 6)
    yield Fails(RuntimeError, real(2, 3))
    yield Fails(RuntimeError, whole(2, 2))


def exponential_reference(torch: Any) -> Callable:
    """PyTorch's, except that it overflows in half precision."""
    narrow = (torch.float16, torch.bfloat16)
    exact = torch.linalg.matrix_exp
    return lambda A: exact(A.float()).to(A.dtype) if A.dtype in narrow else exact(A)


@composite(exponential_samples, spaces=("", "linalg"), method=True, reference=exponential_reference)
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of a square matrix."""
    check_tensor("linalg.matrix_exp", input)
    if input._form.dtype in NARROW:
        return exponential(input.float()).to(input.dtype)
    return exponential(input)


# Tensors as matrices ---------------------------------------------------------------------------------------


def tensorinv_samples() -> Iterator[Sample]:
    yield Sample(invertible(6, 6).reshape(6, 2, 3), ind=1)
    yield Sample(invertible(4, 4).reshape(2, 2, 4))
    yield Fails(RuntimeError, real(4, 3, 2), ind=1)
    yield Fails(RuntimeError, real(4, 4), ind=0)


@composite(tensorinv_samples, spaces=("linalg",), out=True)
def tensorinv(input: Tensor, ind: int = 2) -> Tensor:
    """The inverse of a tensor as a linear map from its last dimensions to its first `ind`."""
    if ind <= 0:
        raise error(RuntimeError, "linalg.tensorinv", f"ind must be positive, not {ind}")
    first, last = input._form.shape[:ind], input._form.shape[ind:]
    if count(first) != count(last):
        rule = f"the first {ind} dimensions must hold as many elements as the others"
        raise error(RuntimeError, "linalg.tensorinv", rule, input=input)
    return inv(input.reshape(count(first), count(last))).reshape(*last, *first)


def tensorsolve_samples() -> Iterator[Sample]:
    yield Sample(invertible(6, 6).reshape(2, 3, 6), real(2, 3))
    yield Sample(
        np.ascontiguousarray(invertible(6, 6).reshape(6, 2, 3).transpose(1, 0, 2)), real(6), dims=(0, 2)
    )
    yield Fails(RuntimeError, real(2, 3, 4), real(2, 3))


@composite(tensorsolve_samples, spaces=("linalg",), out=True)
def tensorsolve(input: Tensor, other: Tensor, dims: Any = None) -> Tensor:
    """X with tensordot(A, X) = B; `dims` of A move to the end first."""
    if dims is not None:
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        input = input.movedim(dims, tuple(range(-len(dims), 0)))
    rest = input._form.shape[other._form.ndim :]
    if count(rest) != other._form.size or input._form.size != other._form.size**2:
        rule = "input must be a square map: as many elements beyond other's dimensions as other has"
        raise error(RuntimeError, "linalg.tensorsolve", rule, input=input, other=other)
    return solve(input.reshape(other._form.size, count(rest)), other.reshape(-1)).reshape(rest)


def vander_samples() -> Iterator[Sample]:
    yield Sample(real(3))
    yield Sample(real(2, 3), N=4)
    yield Fails(RuntimeError, real(3), N=1)


@composite(vander_samples, spaces=("linalg",))
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 to N − 1 of every element, along a new last dimension."""
    check_tensor("linalg.vander", x, "x")
    if N is not None and N <= 1:
        raise error(RuntimeError, "linalg.vander", "N must be greater than 1", x=x, N=N)
    x = x if x._form.ndim else x.unsqueeze(0)
    columns = x._form.shape[-1] if N is None else N
    ones = x.new_ones((*x._form.shape, 1))
    if columns == 1:
        return ones
    powers = x.unsqueeze(-1).expand(*x._form.shape, columns - 1).cumprod(-1)
    return cat([ones, powers], -1)
