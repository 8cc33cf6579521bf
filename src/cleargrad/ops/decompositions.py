"""QR, singular values, eigenvalues, and what is built on them: pseudo-inverses and least squares.

The gradients of vectors divide by differences of singular values or eigenvalues: they are infinite where two
coincide; gradients of the values alone stay finite. Read next: ops/reflections.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.shape import Spec
from cleargrad.core.tensor import Tensor
from cleargrad.errors import LinAlgError, error
from cleargrad.ops import return_types
from cleargrad.ops.declare import composite, opaque
from cleargrad.ops.joining import cat
from cleargrad.ops.linear_algebra import check_matrix, definite, identity, invertible
from cleargrad.ops.matmul import adjoint
from cleargrad.ops.pointwise import conj
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.triangular import solve_triangular


def converging(name: str, kernel: Callable, *args: Any, **kwargs: Any) -> Any:
    """An iteration of LAPACK; NaN or infinity in the input are what it does not converge on."""
    try:
        return kernel(*args, **kwargs)
    except np.linalg.LinAlgError as failure:
        rule = "the algorithm failed to converge, for example since the matrix contains non-finite values"
        raise error(LinAlgError, name, rule) from failure


def sizes(A: Tensor) -> tuple[tuple[int, ...], int, int, int]:
    *batch, m, n = A._form.shape
    return tuple(batch), m, n, min(m, n)


def scale_columns(x: Tensor, factors: Tensor) -> Tensor:
    return x * factors.unsqueeze(-2)


def over(x: Tensor, differences: Tensor) -> Tensor:
    """x / differences, where nothing over nothing is nothing: no gradient was asked for there."""
    return x / differences.masked_fill((differences == 0) & (x == 0), 1)


# QR --------------------------------------------------------------------------------------------------------


def qr_spec(A: Tensor, *, mode: str) -> list[Spec]:
    check_matrix("linalg.qr", A)
    batch, m, n, k = sizes(A)
    if mode == "r":
        return [Spec((0,), A.dtype), Spec((*batch, k, n), A.dtype)]
    inner = m if mode == "complete" else k
    return [Spec((*batch, m, inner), A.dtype), Spec((*batch, inner, n), A.dtype)]


def run_qr(A: np.ndarray, *, mode: Any) -> tuple:
    if mode == "r":
        return np.empty(0, A.dtype), np.linalg.qr(A, mode="r")
    return tuple(np.linalg.qr(A, mode=mode))


def qr_vjp(g: list, A: Tensor, out0: Tensor, out1: Tensor, *, mode: str) -> Tensor:
    """[gQ + Q·sym(R gRᴴ − gQᴴ Q)] R⁻ᴴ for a tall matrix; a wide one is [X Y] = Q [U V] with X square."""
    m, n = A._form.shape[-2:]
    if mode == "r":
        rule = "the derivative of linalg.qr depends on Q, which is not computed when mode='r'"
        raise error(RuntimeError, "linalg.qr", rule, fix="use mode='reduced'")
    if mode == "complete" and m > n:
        rule = "the QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        raise error(RuntimeError, "linalg.qr", rule, fix="use mode='reduced'")
    gQ, gR = g
    if m >= n:
        return tall_qr_vjp(gQ, gR, out0, out1)
    gV = gR[..., m:]
    left = tall_qr_vjp(gQ + A[..., m:] @ adjoint(gV), gR[..., :m], out0, out1[..., :m])
    return cat([left, out0 @ gV], -1)


def tall_qr_vjp(gQ: Tensor, gR: Tensor, Q: Tensor, R: Tensor) -> Tensor:
    lower = (R @ adjoint(gR) - adjoint(gQ) @ Q).tril()
    mirrored = lower + adjoint(lower.tril(-1))
    if Q._form.dtype.kind == "c":
        turn = mirrored.diagonal(0, -2, -1)
        mirrored = mirrored - (turn - turn.real).diag_embed()
    return solve_triangular(adjoint(R), gQ + Q @ mirrored, upper=False, left=False)


qr_op = opaque(
    "linalg_qr",
    spec=qr_spec,
    run=run_qr,
    vjp=qr_vjp,
    samples=lambda: iter([Sample(invertible(3, 3), mode="reduced"), Sample(real(2, 3), mode="complete")]),
    outputs=2,
)


def qr_samples() -> Iterator[Sample]:
    yield Sample(invertible(3, 3))
    yield Sample(real(2, 4, 3))
    yield Sample(real(2, 3), mode="complete")
    yield Sample(real(2, 4))
    yield Fails(RuntimeError, real(3))
    yield Fails(RuntimeError, real(3, 3), mode="full")
    yield Fails(RuntimeError, whole(3, 3))


@composite(qr_samples, spaces=("linalg",), out=True)
def qr(A: Tensor, mode: str = "reduced") -> tuple:
    """Q with orthonormal columns and R upper triangular with A = Q·R; `mode` is reduced, complete or r."""
    if mode not in ("reduced", "complete", "r"):
        raise error(RuntimeError, "linalg.qr", f"mode must be 'reduced', 'complete' or 'r', not {mode!r}")
    return return_types.linalg_qr(qr_op(A, mode=mode))


@composite(
    lambda: iter([Sample(invertible(3, 3)), Sample(real(4, 3)), Sample(real(2, 3), False)]),
    method=True,
    out=True,
)
def qr_(input: Tensor, some: bool = True) -> tuple:
    """The older form of linalg.qr."""
    return return_types.qr(qr_op(input, mode="reduced" if some else "complete"))


# Singular values -------------------------------------------------------------------------------------------


def svd_spec(A: Tensor, *, full_matrices: bool) -> list[Spec]:
    check_matrix("linalg.svd", A)
    batch, m, n, k = sizes(A)
    left, right = (m, n) if full_matrices else (k, k)
    real_kind = A.dtype.to_real()
    return [Spec((*batch, m, left), A.dtype), Spec((*batch, k), real_kind), Spec((*batch, right, n), A.dtype)]


def run_svd(A: np.ndarray, *, full_matrices: bool) -> tuple:
    return tuple(converging("linalg.svd", np.linalg.svd, A, full_matrices=full_matrices))


def svd_vjp(g: list, out0: Tensor, out1: Tensor, out2: Tensor) -> Tensor:
    """U [skew(Uᴴ gU)/E · S + S · skew(Vᴴ gV)/E + gS] Vᴴ, with Eᵢⱼ = Sⱼ² − Sᵢ², and what leaves their span."""
    k = out1._form.shape[-1]
    U, S, Vh = out0[..., :k], out1, out2[..., :k, :]
    gU, gS, gV = g[0][..., :k], g[1], adjoint(g[2][..., :k, :])
    V = adjoint(Vh)
    squares = S * S
    E = squares.unsqueeze(-2) - squares.unsqueeze(-1) + identity(k, k, S)
    turnU, turnV = adjoint(U) @ gU, Vh @ gV
    skewU, skewV = turnU - adjoint(turnU), turnV - adjoint(turnV)
    inner = scale_columns(over(skewU, E), S) + S.unsqueeze(-1) * over(skewV, E) + gS.diag_embed()
    if U._form.dtype.kind == "c":  # a pair of vectors may turn together; how one turns is not free
        inner = inner + (skewU.diagonal(0, -2, -1) / (2 * S)).diag_embed()
    beyondU, beyondV = gU - U @ turnU, gV - V @ turnV
    scale = over(S * 0 + 1, S).unsqueeze(-2) if k else S.unsqueeze(-2)
    result = U @ inner @ Vh
    if U._form.shape[-2] > k:
        result = result + (beyondU * scale) @ Vh
    if V._form.shape[-2] > k:
        result = result + U @ adjoint(beyondV * scale)
    return result


svd_op = opaque(
    "linalg_svd",
    spec=svd_spec,
    run=run_svd,
    vjp=svd_vjp,
    samples=lambda: iter([Sample(real(3, 3), full_matrices=False), Sample(real(2, 4), full_matrices=False)]),
    outputs=3,
)


def svd_samples() -> Iterator[Sample]:
    yield Sample(real(3, 3))
    yield Sample(real(4, 2), full_matrices=False)
    yield Sample(real(2, 3, 2), full_matrices=False)
    yield Fails(RuntimeError, real(3))
    yield Fails(RuntimeError, whole(3, 3))


@composite(svd_samples, spaces=("linalg",), out=True)
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> tuple:
    """U, S, Vh with A = U·diag(S)·Vh and S falling."""
    return return_types.linalg_svd(svd_op(A, full_matrices=full_matrices))


@composite(
    lambda: iter([Sample(real(3, 3)), Sample(real(4, 2)), Sample(real(2, 4, 2))]), method=True, out=True
)
def svd_(input: Tensor, some: bool = True, compute_uv: bool = True) -> tuple:
    """The older form of linalg.svd, which returns V instead of Vh."""
    U, S, Vh = svd_op(input, full_matrices=not some)
    if not compute_uv:
        batch, m, n, _ = sizes(input)
        U, Vh = input.new_zeros((*batch, m, m)), input.new_zeros((*batch, n, n))
    return return_types.svd((U, S, adjoint(Vh)))


@composite(
    lambda: iter([Sample(real(3, 3)), Sample(real(2, 4, 3)), Fails(RuntimeError, real(3))]),
    spaces=("linalg",),
    out=True,
)
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, falling."""
    return svd_op(A, full_matrices=False)[1]


# Eigenvalues -----------------------------------------------------------------------------------------------


def eigh_spec(A: Tensor, *, UPLO: str) -> list[Spec]:
    check_matrix("linalg.eigh", A, square=True)
    return [Spec(A._form.shape[:-1], A.dtype.to_real()), Spec(A._form.shape, A.dtype)]


def differences_of(values: Tensor) -> Tensor:
    """Eᵢⱼ = λⱼ − λᵢ, with ones on the diagonal so that it can divide."""
    n = values._form.shape[-1]
    return values.unsqueeze(-2) - values.unsqueeze(-1) + identity(n, n, values)


def eigh_vjp(g: list, out0: Tensor, out1: Tensor) -> Tensor:
    """V [diag(gλ) + sym((Vᴴ gV)/E)] Vᴴ."""
    turn = adjoint(out1) @ g[1]
    turn = turn - turn.diagonal(0, -2, -1).diag_embed()
    inner = over(turn, differences_of(out0))
    return out1 @ (0.5 * (inner + adjoint(inner)) + g[0].diag_embed()) @ adjoint(out1)


eigh_op = opaque(
    "linalg_eigh",
    spec=eigh_spec,
    run=lambda A, *, UPLO: tuple(converging("linalg.eigh", np.linalg.eigh, A, UPLO=UPLO)),
    vjp=eigh_vjp,
    samples=lambda: iter([Sample(definite(3, 3), UPLO="L"), Sample(definite(2, 2, 2), UPLO="U")]),
    outputs=2,
)


def eigh_samples() -> Iterator[Sample]:
    yield Sample(definite(2, 2))
    yield Sample(definite(2, 2, 2), "U")
    yield Fails(RuntimeError, real(2, 3))
    yield Fails(RuntimeError, whole(3, 3))


@composite(eigh_samples, spaces=("linalg",), out=True)
def eigh(input: Tensor, UPLO: str = "L") -> tuple:
    """Rising eigenvalues and orthonormal eigenvectors of a symmetric matrix; only one triangle is read."""
    return return_types.linalg_eigh(eigh_op(input, UPLO=UPLO.upper()))


@composite(eigh_samples, spaces=("linalg",), out=True)
def eigvalsh(input: Tensor, UPLO: str = "L") -> Tensor:
    """The rising eigenvalues of a symmetric matrix."""
    return eigh_op(input, UPLO=UPLO.upper())[0]


def eig_spec(A: Tensor) -> list[Spec]:
    check_matrix("linalg.eig", A, square=True)
    kind = A.dtype.to_complex()
    return [Spec(A._form.shape[:-1], kind), Spec(A._form.shape, kind)]


def run_eig(A: np.ndarray) -> tuple:
    kind = np.result_type(A.dtype, np.complex64)
    if not np.isfinite(A).all():
        raise error(RuntimeError, "linalg.eig", "input tensor should not contain infs or NaNs")
    return tuple(part.astype(kind, copy=False) for part in converging("linalg.eig", np.linalg.eig, A))


def eig_vjp(g: list, out0: Tensor, out1: Tensor) -> Tensor:
    """V⁻ᴴ [diag(gλ) + (Vᴴ gV − VᴴV diag(Re Vᴴ gV)) / E*] Vᴴ, for eigenvectors of length one."""
    from cleargrad.ops.linear_algebra import solve

    Vh = adjoint(out1)
    turn = Vh @ g[1]
    turn = turn - scale_columns(Vh @ out1, turn.diagonal(0, -2, -1).real)
    turn = turn - turn.diagonal(0, -2, -1).diag_embed()
    inner = over(turn, conj(differences_of(out0))) + g[0].diag_embed()
    return solve(Vh, inner @ Vh)


eig_op = opaque(
    "linalg_eig",
    spec=eig_spec,
    run=run_eig,
    vjp=eig_vjp,
    samples=lambda: iter([Sample(invertible(3, 3)), Sample(real(2, 2, 2))]),
    outputs=2,
)


def eig_samples() -> Iterator[Sample]:
    yield Sample(invertible(2, 2))
    yield Sample(real(2, 2, 2))
    yield Fails(RuntimeError, real(2, 3))


@composite(eig_samples, spaces=("linalg",), out=True)
def eig(input: Tensor) -> tuple:
    """Eigenvalues and eigenvectors of length one of any square matrix, as complex numbers."""
    return return_types.linalg_eig(eig_op(input))


@composite(eig_samples, spaces=("linalg",), out=True)
def eigvals(input: Tensor) -> Tensor:
    """The eigenvalues of any square matrix, as complex numbers."""
    return eig_op(input)[0]


# Pseudo-inverse and least squares --------------------------------------------------------------------------


def pinv_spec(A: Tensor, atol: Any, rtol: Any, *, hermitian: bool) -> Spec:
    check_matrix("linalg.pinv", A, square=hermitian)
    batch, m, n, _ = sizes(A)
    return Spec((*batch, n, m), A.dtype)


def run_pinv(A: np.ndarray, atol: Any, rtol: Any, *, hermitian: bool) -> np.ndarray:
    """Inverts the singular values above max(atol, rtol · the largest); `rtol` None is eps times the size."""
    m, n = A.shape[-2:]
    if not A.size:
        return np.zeros((*A.shape[:-2], n, m), A.dtype)
    if hermitian:
        L, U = converging("linalg.pinv", np.linalg.eigh, A)
        S, Vh = np.abs(L), np.where(L < 0, -1, 1).astype(L.dtype)[..., None] * U.conj().swapaxes(-1, -2)
    else:
        U, S, Vh = converging("linalg.pinv", np.linalg.svd, A, full_matrices=False)
    cut = np.maximum(threshold(atol, 0), threshold(rtol, max(m, n) * np.finfo(S.dtype).eps) * S.max(-1))
    large = cut[..., None] < S
    inverted = np.where(large, 1 / np.where(large, S, 1), 0).astype(S.dtype)
    return (Vh.conj().swapaxes(-1, -2) * inverted[..., None, :]) @ U.conj().swapaxes(-1, -2)


def threshold(value: Any, default: float) -> np.ndarray:
    return np.asarray(default if value is None else value)


def pinv_vjp(g: Tensor, A: Tensor, out: Tensor) -> Tensor:
    """−Pᴴ g Pᴴ + (I − A P) gᴴ P Pᴴ + Pᴴ P gᴴ (I − P A), while the rank stays (Golub and Pereyra 1973)."""
    Ph, gh = adjoint(out), adjoint(g)
    row_part, column_part = gh @ out @ Ph, Ph @ out @ gh
    return -Ph @ g @ Ph + row_part - A @ (out @ row_part) + column_part - (column_part @ out) @ A


pinv_op = opaque(
    "linalg_pinv",
    spec=pinv_spec,
    run=run_pinv,
    vjp=(pinv_vjp, None, None),
    samples=lambda: iter(
        [Sample(real(3, 2), None, None, hermitian=False), Sample(real(2, 2, 3), 1e-6, 1e-6, hermitian=False)]
    ),
)


def pinv_samples() -> Iterator[Sample]:
    yield Sample(real(3, 2))
    yield Sample(real(2, 2, 3))
    yield Sample(definite(3, 3), hermitian=True)
    yield Sample(real(3, 3), atol=0.1, rtol=0.01)
    yield Fails(RuntimeError, real(3))
    yield Fails(RuntimeError, whole(3, 3))


@composite(pinv_samples, spaces=("linalg",), out=True)
def pinv(
    input: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The pseudo-inverse; singular values up to max(atol, rtol · the largest) count as zero."""
    rtol = rcond if rtol is None else rtol
    if rtol is None and atol is not None:
        rtol = 0.0
    return pinv_op(input, atol, rtol, hermitian=hermitian)


@composite(lambda: iter([Sample(real(3, 2)), Sample(real(2, 2, 3))]), method=True)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The older form of linalg.pinv."""
    return pinv_op(input, None, rcond, hermitian=False)


def lstsq_samples() -> Iterator[Sample]:
    yield Sample(real(4, 2), real(4, 3))
    yield Sample(real(2, 4, 2), real(2, 4, 1))
    yield Sample(real(2, 3), real(2, 1))
    yield Fails(RuntimeError, real(3, 2), real(4, 2))
    yield Fails(RuntimeError, real(3), real(3))


@composite(lstsq_samples, spaces=("linalg",))
def lstsq(input: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> tuple:
    """X with the columns of input·X − b shortest; their squared lengths, the rank, singular values."""
    check_matrix("linalg.lstsq", input)
    batch, m, n, _ = sizes(input)
    vector = b._form.ndim == 1 or b._form.shape == (*batch, m)
    b = b.unsqueeze(-1) if vector else b
    if b._form.shape[-2] != m or b._form.dtype != input._form.dtype:
        rule = "input and b must have the same dtype and number of rows"
        raise error(RuntimeError, "linalg.lstsq", rule, input=input, b=b)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise error(
            RuntimeError, "linalg.lstsq", "driver must be one of gels, gelsy, gelsd, gelss", driver=driver
        )
    solution = pinv_op(input, None, rcond, hermitian=False) @ b
    # LAPACK's four drivers differ in what they tell beside the solution.
    nothing = input.new_empty((0,))
    values = svdvals(input.detach())
    cut = (max(m, n) * float(np.finfo(values._form.dtype).eps) if rcond is None else rcond) * values[..., :1]
    rank = (values > cut).sum(-1)
    residuals = nothing
    if m > n and (driver == "gels" or (driver in ("gelsd", "gelss") and bool((rank == n).all()))):
        residuals = ((input @ solution - b).abs() ** 2).sum(-2)
    rank = rank.new_empty((0,)) if driver == "gels" else rank
    values = values if driver in ("gelsd", "gelss") else nothing
    return return_types.linalg_lstsq((solution.squeeze(-1) if vector else solution, residuals, rank, values))
