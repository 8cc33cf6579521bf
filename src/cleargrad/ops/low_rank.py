"""Singular values by random projection, for matrices that are close to one of low rank.

A few random combinations of the columns span nearly the whole column space; the decomposition is then one of
a small matrix. Read next: ops/norms.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite
from cleargrad.ops.decompositions import qr, svd
from cleargrad.ops.matmul import adjoint
from cleargrad.ops.random_tensors import randn
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor


def nearly_low_rank(*shape: int) -> object:
    """A sample whose singular values fall fast and are not close to each other."""
    *batch, m, n = shape
    return real(*batch, m, 2) @ (real(*batch, 2, n, seed=3) * 0.5) + 0.1 * real(*batch, m, n, seed=5)


def rows_and_columns(op: str, A: Tensor) -> tuple[int, int]:
    check_tensor(op, A, "A")
    if A._form.ndim < 2:
        raise error(ValueError, op, "expected a matrix or a stack of them", A=A)
    return A._form.shape[-2:]


def spanning(A: Tensor, q: int, niter: int) -> Tensor:
    """q orthonormal columns that nearly span A's; every iteration favours the larger singular values."""
    Q = qr(A @ randn(A._form.shape[-1], q, dtype=A.dtype, device=A.device)).Q
    for _ in range(niter):
        Q = qr(adjoint(A) @ Q).Q
        Q = qr(A @ Q).Q
    return Q


def low_rank_samples() -> Iterator[Sample]:
    yield Sample(nearly_low_rank(5, 3), 3)
    yield Sample(nearly_low_rank(3, 5), 3, 1)
    yield Sample(nearly_low_rank(2, 5, 3), 3, 1)
    yield Sample(nearly_low_rank(5, 3), 3, M=real(1, 3))
    yield Fails(ValueError, real(3))


@composite(low_rank_samples)
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, S, V with A − M ≈ U·diag(S)·Vᴴ and at most `q` singular values."""
    m, n = rows_and_columns("svd_lowrank", A)
    if M is not None:
        A = A - M
    if m < n:
        V, S, U = tall_svd(adjoint(A), q, niter)
        return U, S, V
    return tall_svd(A, q, niter)


def tall_svd(A: Tensor, q: int | None, niter: int | None) -> tuple[Tensor, Tensor, Tensor]:
    Q = spanning(A, 6 if q is None else q, 2 if niter is None else niter)
    U, S, Vh = svd(adjoint(Q) @ A, full_matrices=False)
    return Q @ U, S, adjoint(Vh)


def pca_samples() -> Iterator[Sample]:
    yield Sample(nearly_low_rank(5, 3), 3)
    yield Sample(nearly_low_rank(3, 5), 3, False)
    yield Sample(nearly_low_rank(2, 5, 3), q=3, niter=1)
    yield Fails(ValueError, real(4, 3), 4)
    yield Fails(ValueError, real(4, 3), 2, niter=-1)


@composite(pca_samples)
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """The principal components, V, of the rows of A, with U and S; the mean row is taken off first."""
    m, n = rows_and_columns("pca_lowrank", A)
    count = min(6, m, n) if q is None else q
    if not 0 <= count <= min(m, n):
        rule = f"q (={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        raise error(ValueError, "pca_lowrank", rule)
    if niter < 0:
        raise error(ValueError, "pca_lowrank", f"niter (={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, count, niter)
