"""Householder's reflections: LAPACK's compact QR (geqrf), and the products that take it apart.

A reflection is I − tau·v·vᴴ. Column k of the compact form holds, below its diagonal, the vector vₖ, whose
first entries are 0, ..., 0, 1. Read next: ops/symmetric_factors.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops import return_types
from cleargrad.ops.declare import composite, opaque
from cleargrad.ops.decompositions import sizes
from cleargrad.ops.linear_algebra import check_matrix, identity, identity_of, renamed
from cleargrad.ops.matmul import adjoint
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, real


def reflectors_spec(A: Tensor) -> list[Spec]:
    check_matrix("geqrf", A)
    batch, m, n, k = sizes(A)
    return [Spec((*batch, m, n), A.dtype), Spec((*batch, k), A.dtype)]


def run_reflectors(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    compact, tau = np.linalg.qr(A, mode="raw")
    return compact.swapaxes(-1, -2).copy(), tau


reflectors = opaque(
    "geqrf",
    spec=reflectors_spec,
    run=run_reflectors,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(real(4, 3)), Sample(real(2, 3, 3))]),
    outputs=2,
)


@composite(
    lambda: iter([Sample(real(4, 3)), Sample(real(2, 3, 3)), Fails(RuntimeError, real(3))]),
    method=True,
    vjp=NO_GRAD,
)
def geqrf(input: Tensor) -> tuple:
    """LAPACK's compact QR: R above the diagonal, Householder's reflectors below it, and their factors."""
    return return_types.geqrf(reflectors(input))


def householder_samples() -> Iterator[Sample]:
    yield Sample(real(3, 2), real(2, seed=1))
    yield Sample(real(2, 3, 3), real(2, 2, seed=1))
    yield Fails(RuntimeError, real(2, 3), real(2))


@composite(householder_samples, spaces=("linalg",), out=True)
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of the reflections I − tau·v·vᴴ, v below the diagonal of `input`."""
    check_matrix("linalg.householder_product", input)
    m, n = input._form.shape[-2:]
    if m < n or tau._form.shape[-1] > n:
        raise error(
            RuntimeError,
            "linalg.householder_product",
            "expected a tall input and at most as many tau",
            input=input,
            tau=tau,
        )
    vectors = input.tril(-1) + identity(m, n, input)
    product = identity_of(input)
    for k in range(tau._form.shape[-1] - 1, -1, -1):
        v = vectors[..., k : k + 1]
        product = product - tau[..., k, None, None] * (v @ (adjoint(v) @ product))
    return product


composite(householder_samples, method=True, out=True)(renamed(householder_product, "orgqr"))


def ormqr_samples() -> Iterator[Sample]:
    yield Sample(real(4, 3), real(3, seed=1), real(4, 2, seed=2))
    yield Sample(real(4, 3), real(3, seed=1), real(2, 4, seed=2), False)
    yield Sample(real(2, 3, 3), real(2, 3, seed=1), real(2, 3, 2, seed=2), transpose=True)
    yield Sample(real(2, 4), real(2, seed=1), real(3, 2, seed=2), left=False, transpose=True)
    yield Fails(RuntimeError, real(4, 3), real(3), real(3, 2))
    yield Fails(RuntimeError, real(4, 3), real(2), real(4, 2))
    yield Fails(RuntimeError, real(4, 3), real(3), real(4))


@composite(ormqr_samples, method=True, out=True)
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q·other, other·Q or those with Qᴴ, for the square Q whose reflections are in `input` and `tau`."""
    check_reflections(input, tau, other, left)
    if not left:
        return adjoint(reflected(input, tau, adjoint(other), not transpose))
    return reflected(input, tau, other, transpose)


def check_reflections(input: Tensor, tau: Tensor, other: Tensor, left: bool) -> None:
    check_matrix("ormqr", input, "input")
    check_matrix("ormqr", other, "other")
    facing = other._form.shape[-2 if left else -1]
    if facing != input._form.shape[-2] or input._form.shape[:-2] != other._form.shape[:-2]:
        rule = (
            f"other must have as many {'rows' if left else 'columns'} as input has rows, and as many matrices"
        )
        raise error(RuntimeError, "ormqr", rule, input=input, other=other)
    if tau._form.shape != (*input._form.shape[:-2], min(facing, input._form.shape[-1])):
        raise error(
            RuntimeError, "ormqr", "tau must have one number for each reflection", input=input, tau=tau
        )
    if not input.dtype is tau.dtype is other.dtype:
        raise error(RuntimeError, "ormqr", "expected one dtype", input=input, tau=tau, other=other)


def reflected(input: Tensor, tau: Tensor, other: Tensor, transpose: bool) -> Tensor:
    """Q = H₁·H₂⋯Hₖ times other: the last reflection comes first; for Qᴴ the other way round."""
    m, n = input._form.shape[-2:]
    vectors = input.tril(-1) + identity(m, n, input)
    count = tau._form.shape[-1]
    factors = tau.conj() if transpose else tau
    for k in range(count) if transpose else reversed(range(count)):
        v = vectors[..., k : k + 1]
        other = other - factors[..., k, None, None] * (v @ (adjoint(v) @ other))
    return other
