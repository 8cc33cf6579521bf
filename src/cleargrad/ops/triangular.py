"""Triangular systems, and the factorisations into triangular matrices: Cholesky and LU.

NumPy has no triangular solver and no LU, so both are written here, for whole stacks at a time.
Read next: ops/decompositions.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from cleargrad.core.dtype import dtype as Dtype
from cleargrad.core.dtype import int32
from cleargrad.core.shape import Spec, broadcast, count
from cleargrad.core.tensor import Tensor
from cleargrad.errors import LinAlgError, error
from cleargrad.ops import return_types
from cleargrad.ops.declare import composite, fused, opaque
from cleargrad.ops.joining import cat
from cleargrad.ops.linear_algebra import (
    check_matrix,
    definite,
    guarded,
    identity,
    invertible,
    square_spec,
    with_info,
)
from cleargrad.ops.matmul import adjoint
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, real, whole

# Triangular systems ----------------------------------------------------------------------------------------


BLOCK = 32  # rows that are solved one by one; what earlier blocks contribute is one matrix product


def substitute(L: np.ndarray, B: np.ndarray, unit: bool) -> np.ndarray:
    """X with L·X = B for lower triangular L, row after row."""
    n = L.shape[-1]
    X = B.copy()
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        X[..., start:stop, :] -= L[..., start:stop, :start] @ X[..., :start, :]
        for row in range(start, stop):
            if row > start:
                X[..., row, :] -= (L[..., row, None, start:row] @ X[..., start:row, :])[..., 0, :]
            if not unit:
                X[..., row, :] /= L[..., row, row, None]
    return X


def run_triangular(A: np.ndarray, B: np.ndarray, *, upper: bool, unitriangular: bool) -> np.ndarray:
    batch = broadcast("linalg.solve_triangular", A.shape[:-2], B.shape[:-2])
    A, B = np.broadcast_to(A, batch + A.shape[-2:]), np.broadcast_to(B, batch + B.shape[-2:])
    if upper:  # the same system read from its end
        return substitute(A[..., ::-1, ::-1], B[..., ::-1, :], unitriangular)[..., ::-1, :].copy()
    return substitute(A, B, unitriangular)


def triangular_spec(A: Tensor, B: Tensor, *, upper: bool, unitriangular: bool) -> Spec:
    op = "linalg.solve_triangular"
    check_matrix(op, A, square=True)
    check_matrix(op, B, "B")
    a, b = A._form.shape, B._form.shape
    if A._form.dtype != B._form.dtype or a[-1] != b[-2]:
        raise error(RuntimeError, op, "expected A and B of the same dtype and with sizes that fit", A=A, B=B)
    return Spec((*broadcast(op, a[:-2], b[:-2]), *b[-2:]), A.dtype)


def triangular_vjp(
    g: Tensor, A: Tensor, out: Tensor, *, upper: bool, unitriangular: bool
) -> tuple[Tensor, Tensor]:
    gradient = triangular_op(adjoint(A), g, upper=not upper, unitriangular=unitriangular)
    full = -gradient @ adjoint(out)
    return full.triu(int(unitriangular)) if upper else full.tril(-int(unitriangular)), gradient


def triangular_op_samples() -> Iterator[Sample]:
    for upper in (True, False):
        yield Sample(invertible(3, 3), real(3, 2), upper=upper, unitriangular=False)
        yield Sample(invertible(2, 1, 3, 3), real(2, 3, 1), upper=upper, unitriangular=True)


triangular_op = opaque(
    "linalg_solve_triangular",
    spec=triangular_spec,
    run=run_triangular,
    vjp=triangular_vjp,
    samples=triangular_op_samples,
)


def triangular_samples() -> Iterator[Sample]:
    yield Sample(invertible(3, 3), real(3, 2), upper=True)
    yield Sample(invertible(3, 3), real(3, 2), upper=False)
    yield Sample(invertible(2, 1, 3, 3), real(2, 2, 3), upper=False, left=False)
    yield Sample(invertible(3, 3), real(3, 2), upper=True, unitriangular=True)
    yield Fails(RuntimeError, invertible(3, 3), real(2, 3), upper=True)
    yield Fails(TypeError, invertible(3, 3), real(3, 2))


@composite(triangular_samples, spaces=("linalg",), out=True)
def solve_triangular(
    input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with A·X = B (or X·A = B), reading one triangle of A; `unitriangular` takes its diagonal as ones."""
    if left:
        return triangular_op(input, B, upper=upper, unitriangular=unitriangular)
    check_matrix("linalg.solve_triangular", input, square=True)
    check_matrix("linalg.solve_triangular", B, "B")
    return triangular_op(input.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT


def older_triangular_samples() -> Iterator[Sample]:
    yield Sample(real(3, 2), invertible(3, 3))
    yield Sample(real(3, 2), invertible(3, 3), False, True)
    yield Sample(real(3, 2), invertible(2, 3, 3), unitriangular=True)
    yield Fails(RuntimeError, real(2, 3), invertible(3, 3))


@composite(older_triangular_samples, method=True, out=True)
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple:
    """The older form of linalg.solve_triangular; also returns a copy of A."""
    matrix = adjoint(A) if transpose else A
    solution = triangular_op(matrix, input, upper=upper != transpose, unitriangular=unitriangular)
    batch = solution._form.shape[:-2]
    copy = A.expand(*batch, *A._form.shape[-2:]).clone()
    return return_types.triangular_solve((solution, copy))


# Cholesky --------------------------------------------------------------------------------------------------

INDEFINITE = "the input is not positive-definite (the leading minor of order {} is not positive-definite)"


def first_bad_minor(A: np.ndarray) -> int:
    for order in range(1, A.shape[-1] + 1):
        try:
            np.linalg.cholesky(A[:order, :order])
        except np.linalg.LinAlgError:
            return order
    return 0


def run_cholesky(A: np.ndarray, *, upper: bool, check: bool) -> tuple[np.ndarray, np.ndarray]:
    lower = A.conj().swapaxes(-1, -2) if upper else A
    L, info = guarded("linalg.cholesky", np.linalg.cholesky, lower, check, first_bad_minor, INDEFINITE)
    return (L.conj().swapaxes(-1, -2) if upper else L), info


def cholesky_vjp(g: list, out0: Tensor, *, upper: bool) -> Tensor:
    """L⁻ᴴ Φ(Lᴴ g) L⁻¹, where Φ takes the lower triangle and its mirror image, halved."""
    L, gL = (adjoint(out0), adjoint(g[0])) if upper else (out0, g[0])
    lower = (adjoint(L) @ gL).tril()
    inner = 0.5 * (lower + adjoint(lower.tril(-1)))
    left = triangular_op(adjoint(L), inner, upper=True, unitriangular=False)
    return adjoint(triangular_op(adjoint(L), adjoint(left), upper=True, unitriangular=False))


cholesky_op = opaque(
    "linalg_cholesky_ex",
    spec=with_info(square_spec("linalg.cholesky")),
    run=run_cholesky,
    vjp=cholesky_vjp,
    samples=lambda: iter(
        [Sample(definite(3, 3), upper=False, check=True), Sample(definite(2, 2, 2), upper=True, check=False)]
    ),
    outputs=2,
)


def cholesky_samples() -> Iterator[Sample]:
    yield Sample(definite(3, 3))
    yield Sample(definite(2, 3, 3), upper=True)
    yield Fails(RuntimeError, -definite(2, 2))
    yield Fails(RuntimeError, real(2, 3))
    yield Fails(RuntimeError, whole(2, 2))


@composite(cholesky_samples, spaces=("linalg",), out=True)
def cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """L with A = L·Lᴴ, or the upper triangular factor; only one triangle of A is read."""
    return cholesky_op(input, upper=upper, check=True)[0]


@composite(cholesky_samples, method=True, out=True)
def cholesky_(input: Tensor, upper: bool = False) -> Tensor:
    """The older name of linalg.cholesky."""
    return cholesky_op(input, upper=upper, check=True)[0]


@composite(
    lambda: iter([Sample(definite(3, 3)), Sample(definite(2, 3, 3), upper=True)]),
    spaces=("linalg",),
    out=True,
)
def cholesky_ex(input: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple:
    """The factor, and for each matrix 0 or the order of the minor that is not positive."""
    return return_types.linalg_cholesky_ex(cholesky_op(input, upper=upper, check=check_errors))


def run_cholesky_solve(B: np.ndarray, L: np.ndarray, *, upper: bool) -> np.ndarray:
    """Two triangular systems: L·Y = B, then Lᴴ·X = Y."""
    other = L.conj().swapaxes(-1, -2)
    lower, higher = (other, L) if upper else (L, other)
    Y = run_triangular(lower, B, upper=False, unitriangular=False)
    return run_triangular(higher, Y, upper=True, unitriangular=False)


def cholesky_solve_vjp(g: Tensor, L: Tensor, out: Tensor, *, upper: bool) -> tuple[Tensor, Tensor]:
    """Through A = L·Lᴴ, as PyTorch does: also to the triangle of L that is zero and not read."""
    gB = cholesky_solve_op(g, L, upper=upper)
    gA = -gB @ adjoint(out)
    both = gA + adjoint(gA)
    return gB, L @ both if upper else both @ L


def cholesky_solve_parts(B: Tensor, L: Tensor, *, upper: bool) -> Tensor:
    lower, higher = (adjoint(L), L) if upper else (L, adjoint(L))
    Y = triangular_op(lower, B, upper=False, unitriangular=False)
    return triangular_op(higher, Y, upper=True, unitriangular=False)


cholesky_solve_op = fused(
    "cholesky_solve",
    cholesky_solve_parts,
    spec=lambda B, L, *, upper: triangular_spec(L, B, upper=upper, unitriangular=False),
    run=run_cholesky_solve,
    vjp=cholesky_solve_vjp,
    samples=lambda: iter([Sample(real(3, 2), np.tril(invertible(3, 3)), upper=False)]),
)


def cholesky_solve_samples() -> Iterator[Sample]:
    yield Sample(real(3, 2), np.tril(invertible(3, 3)))
    yield Sample(real(2, 3, 2), np.triu(invertible(3, 3)), upper=True)
    yield Fails(RuntimeError, real(2, 3), invertible(3, 3))


@composite(cholesky_solve_samples, method=True, out=True)
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X with A·X = B, from the Cholesky factor L of A."""
    return cholesky_solve_op(input, input2, upper=upper)


def cholesky_inverse_samples() -> Iterator[Sample]:
    yield Sample(np.tril(invertible(3, 3)))
    yield Sample(np.triu(invertible(2, 3, 3)), upper=True)
    yield Fails(RuntimeError, real(2, 3))


@composite(cholesky_inverse_samples, method=True, out=True)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, from its Cholesky factor."""
    check_matrix("cholesky_inverse", input, square=True)
    n = input._form.shape[-1]
    return cholesky_solve(identity(n, n, input).expand(input._form.shape), input, upper)


# LU --------------------------------------------------------------------------------------------------------


def magnitude(x: np.ndarray) -> np.ndarray:
    """What LAPACK compares pivots by."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def eliminate(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gauss's elimination with row swaps: both factors in one matrix, the swaps, and the first zero pivot."""
    m, n = A.shape[-2:]
    batch, steps = A.shape[:-2], min(m, n)
    LU = A.reshape(count(batch), m, n).copy()
    stack = np.arange(len(LU))
    pivots = np.zeros((len(LU), steps), np.int32)
    info = np.zeros(len(LU), np.int32)
    for j in range(steps):
        best = j + magnitude(LU[:, j:, j]).argmax(1)
        pivots[:, j] = best + 1
        LU[stack, best], LU[:, j] = LU[:, j].copy(), LU[stack, best]
        pivot = LU[:, j, j]
        info[(pivot == 0) & (info == 0)] = j + 1
        LU[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)[:, None]
        LU[:, j + 1 :, j + 1 :] -= LU[:, j + 1 :, j, None] * LU[:, j, None, j + 1 :]
    return LU.reshape(A.shape), pivots.reshape(*batch, steps), info.reshape(batch)


def run_permutation(pivots: np.ndarray, *, rows: int, dtype: Dtype) -> np.ndarray:
    batch, steps = pivots.shape[:-1], pivots.shape[-1]
    swaps = pivots.reshape(count(batch), steps).astype(np.int64) - 1
    order = np.tile(np.arange(rows), (len(swaps), 1))
    stack = np.arange(len(swaps))
    for j in range(steps):
        order[stack, swaps[:, j]], order[:, j] = order[:, j].copy(), order[stack, swaps[:, j]]
    matrices = np.zeros((len(swaps), rows, rows), dtype.numpy)
    matrices[stack[:, None], order, np.arange(rows)] = 1
    return matrices.reshape(*batch, rows, rows)


def permutation_spec(pivots: Tensor, *, rows: int, dtype: Dtype) -> Spec:
    if pivots._form.dtype != np.int32:
        raise error(RuntimeError, "lu_unpack", "pivots must be a tensor of int32", pivots=pivots)
    return Spec((*pivots._form.shape[:-1], rows, rows), dtype)


permutation = opaque(
    "lu_permutation",
    spec=permutation_spec,
    run=run_permutation,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(np.array([2, 3, 3], np.int32), rows=3, dtype=int32)]),
)


def lu_spec(A: Tensor, *, check: bool) -> list[Spec]:
    check_matrix("linalg.lu_factor", A)
    *batch, m, n = A._form.shape
    return [Spec(A._form.shape, A.dtype), Spec((*batch, min(m, n)), int32), Spec(tuple(batch), int32)]


def run_lu(A: np.ndarray, *, check: bool) -> tuple:
    LU, pivots, info = eliminate(A)
    if check and info.any():
        rule = f"U[{info[info != 0].flat[0]}, same] is zero, and using it on lu_solve would divide by zero"
        raise error(LinAlgError, "linalg.lu_factor", rule)
    return LU, pivots, info


def lu_vjp(g: list, out0: Tensor, out1: Tensor) -> Tensor:
    """P L⁻ᴴ [tril(Lᴴ gL) + triu(gU Uᴴ)] U⁻ᴴ for the leading square block; beyond it one factor is fixed."""
    m, n = out0._form.shape[-2:]
    k = min(m, n)
    L, U = lower_of(out0), out0.triu()[..., :k, :]
    gL, gU = g[0].tril(-1)[..., :, :k], g[0].triu()[..., :k, :]
    L1, L2, U1, U2 = L[..., :k, :], L[..., k:, :], U[..., :k], U[..., k:]
    gL1, gL2, gU1, gU2 = gL[..., :k, :], gL[..., k:, :], gU[..., :k], gU[..., k:]
    below = adjoint(L1) @ gL1 - gU2 @ adjoint(U2)
    above = gU1 @ adjoint(U1) - adjoint(L2) @ gL2
    corner = below.tril(-1) + above.triu()
    wide = solve_triangular(adjoint(L1), cat([corner, gU2], -1), upper=True, unitriangular=True)
    tall = cat([wide[..., :k], gL2], -2)
    left = solve_triangular(adjoint(U1), tall, upper=False, left=False)
    gradient = cat([left, wide[..., k:]], -1) if n > m else left
    return permutation(out1, rows=m, dtype=out0.dtype) @ gradient


lu_op = opaque(
    "linalg_lu_factor_ex",
    spec=lu_spec,
    run=run_lu,
    vjp=lu_vjp,
    samples=lambda: iter(
        [Sample(real(3, 3), check=True), Sample(real(2, 4, 2), check=False), Sample(real(2, 4), check=False)]
    ),
    outputs=3,
)


def lower_of(LU: Tensor) -> Tensor:
    """The lower factor of a compact LU, with ones on its diagonal."""
    m, n = LU._form.shape[-2:]
    k = min(m, n)
    return LU.tril(-1)[..., :, :k] + identity(m, k, LU)


def lu_samples() -> Iterator[Sample]:
    yield Sample(real(3, 3))
    yield Sample(real(2, 4, 2))
    yield Sample(real(2, 4))
    yield Fails(RuntimeError, real(3))
    yield Fails(RuntimeError, whole(3, 3))


def check_pivot(op: str, pivot: bool) -> None:
    if not pivot:
        raise error(RuntimeError, op, "LU without pivoting is not implemented on the CPU")


@composite(lu_samples, spaces=("linalg",), out=True)
def lu_factor(A: Tensor, *, pivot: bool = True) -> tuple:
    """Both factors of P·L·U in one matrix, and the row swaps."""
    check_pivot("linalg.lu_factor", pivot)
    return return_types.linalg_lu_factor(lu_op(A, check=True)[:2])


@composite(lu_samples, spaces=("linalg",), out=True)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> tuple:
    """As lu_factor, and for each matrix 0 or the place of the first zero pivot."""
    check_pivot("linalg.lu_factor_ex", pivot)
    return return_types.linalg_lu_factor_ex(lu_op(A, check=check_errors))


@composite(lu_samples, spaces=("linalg",), out=True)
def lu(A: Tensor, *, pivot: bool = True) -> tuple:
    """P, L, U with A = P·L·U."""
    check_pivot("linalg.lu", pivot)
    LU, pivots, _ = lu_op(A, check=False)
    return return_types.linalg_lu(unpacked(LU, pivots))


def unpacked(LU: Tensor, pivots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m, n = LU._form.shape[-2:]
    return permutation(pivots, rows=m, dtype=LU.dtype), lower_of(LU), LU.triu()[..., : min(m, n), :]


def unpack_samples() -> Iterator[Sample]:
    yield Sample(real(3, 3), np.array([2, 3, 3], np.int32))
    yield Sample(real(3, 3), np.array([2, 3, 3], np.int32), unpack_pivots=False)
    yield Fails(RuntimeError, real(3, 3), np.array([2, 3, 3]))


@composite(unpack_samples, out=True)
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple:
    """P, L, U from the compact form; what is not asked for is empty."""
    P, L, U = unpacked(LU_data, LU_pivots)
    empty = LU_data.new_empty((0,))
    return return_types.lu_unpack(
        (P if unpack_pivots else empty, *((L, U) if unpack_data else (empty, empty)))
    )


def lu_solve_samples() -> Iterator[Sample]:
    LU, pivots = invertible(3, 3), np.array([2, 3, 3], np.int32)
    yield Sample(LU, pivots, real(3, 2))
    yield Sample(LU, pivots, real(2, 3, 2), adjoint=True)
    yield Sample(LU, pivots, real(2, 3), left=False)


def solve_factored(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, transpose: bool) -> Tensor:
    check_matrix("linalg.lu_solve", LU, "LU", square=True)
    check_matrix("linalg.lu_solve", B, "B")
    P = permutation(pivots, rows=LU._form.shape[-1], dtype=LU.dtype)
    if not left:
        return adjoint(solve_factored(LU, pivots, adjoint(B), True, not transpose))
    if transpose:
        X = triangular_op(adjoint(LU), B, upper=False, unitriangular=False)
        return P @ triangular_op(adjoint(LU), X, upper=True, unitriangular=True)
    X = triangular_op(LU, adjoint(P) @ B, upper=False, unitriangular=True)
    return triangular_op(LU, X, upper=True, unitriangular=False)


@composite(lu_solve_samples, spaces=("linalg",), out=True)
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A·X = B, from the compact LU of A."""
    return solve_factored(LU, pivots, B, left, adjoint)


@composite(
    lambda: iter([Sample(real(3, 2), invertible(3, 3), np.array([2, 3, 3], np.int32))]), method=True, out=True
)
def lu_solve_(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """The older form of linalg.lu_solve."""
    return solve_factored(LU_data, LU_pivots, input, True, False)


@composite(lu_samples, method=True)
def lu_(input: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple:
    """The older form of linalg.lu_factor_ex."""
    check_pivot("lu", pivot)
    rule = "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex"
    warnings.warn(rule, UserWarning, stacklevel=3)
    LU, pivots, info = lu_op(input, check=not get_infos)
    return (LU, pivots, info) if get_infos else (LU, pivots)
