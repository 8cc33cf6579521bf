"""Factors of symmetric matrices that need not be definite: A = L·D·Lᵀ with blocks of one or two rows in D.

NumPy has no such factorisation, so LAPACK's is written here: Bunch's and Kaufman's choice of pivots, in
LAPACK's compact form. Read next: ops/low_rank.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cleargrad.core.dtype import INTEGER, int32
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor
from cleargrad.errors import LinAlgError, error
from cleargrad.ops import return_types
from cleargrad.ops.declare import composite, opaque
from cleargrad.ops.linear_algebra import check_matrix, definite
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

GROWTH = (1 + 17**0.5) / 8  # the share of its column a pivot must have; it keeps the growth of entries least

# Factors ---------------------------------------------------------------------------------------------------


def size(x: np.ndarray) -> np.ndarray:
    """How large entries are, for choosing pivots; LAPACK adds the parts of complex numbers."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def choose_pivot(A: np.ndarray, k: int) -> tuple[int, int]:
    """The row to bring to the front of what is left of a lower triangle, and how many rows the block has."""
    here = size(A[k, k])
    if k + 1 == len(A):
        return k, 1
    row = k + 1 + int(np.argmax(size(A[k + 1 :, k])))
    largest = size(A[row, k])
    if here >= GROWTH * largest:
        return k, 1
    beside = max(size(A[row, k:row]).max(), size(A[row + 1 :, row]).max(initial=0))
    if here * beside >= GROWTH * largest * largest:
        return k, 1
    return row, 1 if size(A[row, row]) >= GROWTH * beside else 2


def exchange(A: np.ndarray, first: int, second: int, hermitian: bool) -> None:
    """Swaps two rows and columns of what, from `first` on, is the lower triangle of a symmetric matrix."""
    turn = np.conj if hermitian else np.asarray
    below = slice(second + 1, None)
    between = slice(first + 1, second)
    A[below, [first, second]] = A[below, [second, first]]
    A[between, first], A[second, between] = turn(A[second, between]), turn(A[between, first]).copy()
    A[second, first] = turn(A[second, first])
    A[first, first], A[second, second] = A[second, second], A[first, first]


def factor(A: np.ndarray, pivots: np.ndarray, hermitian: bool) -> int:
    """Overwrites the lower triangle of A with L and D; gives the first row, from one, where D is singular."""
    n, k, singular = len(A), 0, 0
    turn = np.conj if hermitian else np.asarray
    while k < n:
        if hermitian:
            A[k, k] = A[k, k].real
        if not size(A[k:, k]).max() > 0:
            singular = singular or k + 1
            pivots[k], k = k + 1, k + 1
            continue
        row, count = choose_pivot(A, k)
        last = k + count - 1
        if row != last:
            exchange(A, last, row, hermitian)
            A[[last, row], k:last] = A[[row, last], k:last]
        behind = slice(k + count, None)
        D = block(A, k, count, hermitian)
        columns = A[behind, k : k + count].copy()
        A[behind, k : k + count] = columns @ np.linalg.inv(D)
        A[behind, behind] -= A[behind, k : k + count] @ turn(columns).T
        pivots[k : k + count] = row + 1 if count == 1 else -(row + 1)
        k += count
    return singular


def block(A: np.ndarray, k: int, count: int, hermitian: bool) -> np.ndarray:
    """The block of D at row k, of which the lower triangle is kept."""
    D = A[k : k + count, k : k + count].copy()
    if count == 2:
        D[0, 1] = np.conj(D[1, 0]) if hermitian else D[1, 0]
    return D


def ldl_spec(A: Tensor, *, hermitian: bool) -> list[Spec]:
    check_matrix("linalg.ldl_factor", A, square=True)
    shape = A._form.shape
    return [Spec(shape, A.dtype), Spec(shape[:-1], int32), Spec(shape[:-2], int32)]


def run_ldl(A: np.ndarray, *, hermitian: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    LD = np.tril(A)
    pivots = np.zeros(A.shape[:-1], np.int32)
    info = np.zeros(A.shape[:-2], np.int32)
    for place in np.ndindex(info.shape):
        info[place] = factor(LD[place], pivots[place], hermitian and A.dtype.kind == "c")
    return np.tril(LD), pivots, info


def indefinite(*shape: int, seed: int = 0) -> np.ndarray:
    """A symmetric sample whose pivots are not all on the diagonal."""
    x = real(*shape, seed=seed)
    return x + x.swapaxes(-1, -2) - 4 * np.eye(shape[-1]) * real(shape[-1], seed=seed + 1)


ldl_op = opaque(
    "linalg_ldl_factor",
    spec=ldl_spec,
    run=run_ldl,
    vjp=NO_GRAD,
    samples=lambda: iter([Sample(indefinite(4, 4), hermitian=False)]),
    outputs=3,
)


def ldl_samples() -> Iterator[Sample]:
    yield Sample(definite(3, 3))
    yield Sample(indefinite(2, 5, 5))
    yield Sample(np.array([[0.0, 1.0], [1.0, 0.0]]))
    yield Sample(
        indefinite(4, 4) + 1j * np.triu(real(4, 4), 1) - 1j * np.triu(real(4, 4), 1).T, hermitian=True
    )
    yield Sample(indefinite(4, 4) + 1j * indefinite(4, 4, seed=3))
    yield Sample(np.zeros((0, 0), np.float32))
    yield Fails(RuntimeError, real(2, 3))
    yield Fails(RuntimeError, whole(3, 3))


@composite(ldl_samples, spaces=("linalg",), out=True, vjp=NO_GRAD)
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> tuple:
    """The compact L·D·Lᵀ of a symmetric matrix (L·D·Lᴴ of a Hermitian one), and its pivots."""
    LD, pivots, _ = ldl_factor_ex(A, hermitian=hermitian, check_errors=True)
    return return_types.linalg_ldl_factor((LD, pivots))


@composite(ldl_samples, spaces=("linalg",), out=True, vjp=NO_GRAD)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> tuple:
    """The same, with the number of the first row at which D is singular, or zero, instead of an error."""
    result = ldl_op(A, hermitian=hermitian)
    if check_errors and result[2].any():
        raise error(LinAlgError, "linalg.ldl_factor", "D is singular: the matrix has no inverse", A=A)
    return return_types.linalg_ldl_factor_ex(result)


# Systems ---------------------------------------------------------------------------------------------------


def solve_factored(LD: np.ndarray, pivots: np.ndarray, X: np.ndarray, hermitian: bool) -> None:
    """Overwrites X: through L block after block, each divided by its part of D, and back through Lᵀ."""
    n, k, starts = len(LD), 0, []
    while k < n:
        count = 2 if pivots[k] < 0 else 1
        rows, behind = slice(k, k + count), slice(k + count, None)
        swap(X, k + count - 1, abs(pivots[k]) - 1)
        X[behind] -= LD[behind, rows] @ X[rows]
        X[rows] = np.linalg.solve(block(LD, k, count, hermitian), X[rows])
        starts.append((k, count))
        k += count
    for k, count in reversed(starts):
        rows, behind = slice(k, k + count), slice(k + count, None)
        upper = LD[behind, rows].T
        X[rows] -= (np.conj(upper) if hermitian else upper) @ X[behind]
        swap(X, k + count - 1, abs(pivots[k]) - 1)


def swap(X: np.ndarray, first: int, second: int) -> None:
    if first != second:
        X[[first, second]] = X[[second, first]]


def ldl_solve_spec(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool) -> Spec:
    op = "linalg.ldl_solve"
    check_matrix(op, LD, "LD", square=True)
    check_tensor(op, pivots, "pivots")
    check_matrix(op, B, "B")
    if pivots.dtype.category != INTEGER or pivots._form.shape != LD._form.shape[:-1]:
        raise error(RuntimeError, op, "expected one integer pivot for each row of LD", LD=LD, pivots=pivots)
    if B._form.shape[-2] != LD._form.shape[-1] or B.dtype is not LD.dtype:
        raise error(RuntimeError, op, "B must have as many rows as LD, and its dtype", LD=LD, B=B)
    return Spec(broadcast(op, LD._form.shape[:-2], B._form.shape[:-2]) + B._form.shape[-2:], B.dtype)


def run_ldl_solve(LD: np.ndarray, pivots: np.ndarray, B: np.ndarray, *, hermitian: bool) -> np.ndarray:
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    X = np.broadcast_to(B, batch + B.shape[-2:]).copy()
    LD, pivots = (
        np.broadcast_to(LD, batch + LD.shape[-2:]),
        np.broadcast_to(pivots, batch + pivots.shape[-1:]),
    )
    for place in np.ndindex(batch):
        solve_factored(LD[place], pivots[place], X[place], hermitian and LD.dtype.kind == "c")
    return X


def ldl_solve_samples() -> Iterator[Sample]:
    LD, pivots, _ = run_ldl(indefinite(5, 5), hermitian=False)
    yield Sample(LD, pivots, real(5, 2))
    yield Sample(LD, pivots, real(2, 5, 3))
    yield Sample(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([-2, -2], np.int32), real(2, 1), hermitian=True)
    yield Fails(RuntimeError, LD, pivots, real(4, 2))
    yield Fails(RuntimeError, LD, pivots[:3], real(5, 2))


ldl_solve_op = opaque(
    "linalg_ldl_solve",
    spec=ldl_solve_spec,
    run=run_ldl_solve,
    vjp=NO_GRAD,
    samples=lambda: iter(
        [Sample(*run_ldl(indefinite(4, 4), hermitian=False)[:2], real(4, 2), hermitian=False)]
    ),
)


@composite(ldl_solve_samples, spaces=("linalg",), out=True, vjp=NO_GRAD)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A·X = B, from ldl_factor of A."""
    return ldl_solve_op(LD, pivots, B, hermitian=hermitian)
