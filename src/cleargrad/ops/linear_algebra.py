"""Inverses, linear systems and determinants; every function takes stacks of matrices.

LAPACK does the work through numpy.linalg, in the dtype of its input. Gradients are the published formulas, in
which Aᴴ is the (conjugate) transpose. Read next: ops/matrix_functions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core.dtype import FLOAT, NARROW, OF_NUMPY, int32
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor, wrap, wrap_beside
from cleargrad.errors import LinAlgError, error
from cleargrad.ops import return_types
from cleargrad.ops.declare import composite, opaque
from cleargrad.ops.matmul import adjoint
from cleargrad.ops.pointwise import conj
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor

# What the files of linear algebra share --------------------------------------------------------------------


def invertible(*shape: int, seed: int = 0) -> np.ndarray:
    """A well-conditioned matrix for samples: random, with a heavy diagonal."""
    return real(*shape, seed=seed) + 3 * np.eye(shape[-2], shape[-1])


def definite(*shape: int, seed: int = 0) -> np.ndarray:
    """A symmetric positive definite matrix for samples, with separate eigenvalues."""
    x = real(*shape, seed=seed)
    return x @ x.swapaxes(-1, -2) + np.diag(1.0 + np.arange(shape[-1]))


def check_matrix(op: str, A: Any, name: str = "A", *, square: bool = False) -> None:
    """Refuses what is not a stack of (square) matrices of float32, float64 or complex numbers."""
    check_tensor(op, A, name)
    if A._form.ndim < 2:
        rule = f"the input tensor {name} must have at least 2 dimensions"
        raise error(RuntimeError, op, rule, **{name: A})
    if OF_NUMPY[A._form.dtype].category < FLOAT or A._form.dtype in NARROW:
        rule = "expected a float32, float64 or complex tensor"
        raise error(RuntimeError, op, rule, **{name: A})
    if square and A._form.shape[-1] != A._form.shape[-2]:
        rule = f"{name} must be batches of square matrices"
        raise error(RuntimeError, op, rule, **{name: A})


def identity(rows: int, columns: int, like: Tensor) -> Tensor:
    return wrap_beside(np.eye(rows, columns, dtype=like._form.dtype), like)


def identity_of(A: Tensor) -> Tensor:
    """The identity in A's shape, as a function of A: its gradient is zero, not missing."""
    everywhere = wrap(np.ones((), np.bool_))
    rows, columns = A._form.shape[-2:]
    return A.masked_fill(everywhere, 0) + identity(rows, columns, A)


def square_spec(op: str) -> Callable:
    def spec(A: Tensor, **attrs: Any) -> Spec:
        check_matrix(op, A, square=True)
        return Spec(A._form.shape, A.dtype)

    return spec


def with_info(spec: Callable) -> Callable:
    """The spec of a kernel that also tells, for every matrix of the first operand, where it failed."""

    def both(A: Tensor, *others: Tensor, **attrs: Any) -> list[Spec]:
        return [spec(A, *others), Spec(A._form.shape[:-2], int32)]

    return both


def guarded(
    name: str, kernel: Callable, A: np.ndarray, check: bool, locate: Callable, rule: str
) -> tuple[np.ndarray, np.ndarray]:
    """kernel(A) and where it failed: an error when `check`, else NaN in the places of refused matrices.

    LAPACK refuses a whole stack for one bad matrix; then `locate` tells of each where it fails (0: nowhere),
    and a second run leaves the bad ones out.
    """
    batch = A.shape[:-2]
    info = np.zeros(batch, np.int32)
    try:
        return kernel(A), info
    except np.linalg.LinAlgError:
        for place in np.ndindex(batch):
            info[place] = locate(A[place])
    if check:
        where = f"batch element {np.flatnonzero(info)[0]}: " if batch else ""
        raise error(LinAlgError, name, where + rule.format(info[info != 0].flat[0]))
    bad = (info != 0)[..., None, None]
    result = kernel(np.where(bad, np.eye(A.shape[-1], dtype=A.dtype), A))
    return np.where(bad, np.nan, result).astype(A.dtype), info


def renamed(function: Callable, name: str) -> Callable:
    """The same function to be published under an older name."""

    def again(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    again.__name__ = again.__qualname__ = name
    again.__doc__ = function.__doc__
    again.__wrapped__ = function
    return again


# Inverses and systems --------------------------------------------------------------------------------------

SINGULAR = "the diagonal element {} is zero, so the matrix is singular and has no inverse"


def zero_pivot(A: np.ndarray) -> int:
    """Where elimination meets a zero pivot, counted from one; 0 when it does not."""
    from cleargrad.ops.triangular import eliminate

    try:
        np.linalg.inv(A)
        return 0
    except np.linalg.LinAlgError:
        pass
    return int(eliminate(A)[2]) or A.shape[-1]


def inverse_samples() -> Iterator[Sample]:
    yield Sample(invertible(3, 3))
    yield Sample(invertible(2, 3, 3))
    yield Fails(RuntimeError, np.zeros((2, 2)))
    yield Fails(RuntimeError, real(2, 3))
    yield Fails(RuntimeError, real(3))
    yield Fails(RuntimeError, whole(2, 2))


inverse_op = opaque(
    "linalg_inv_ex",
    spec=with_info(square_spec("linalg.inv")),
    run=lambda A, *, check: guarded("linalg.inv", np.linalg.inv, A, check, zero_pivot, SINGULAR),
    vjp=lambda g, out0: -adjoint(out0) @ g[0] @ adjoint(out0),
    samples=lambda: iter([Sample(invertible(3, 3), check=True), Sample(invertible(2, 2, 2), check=False)]),
    outputs=2,
)


@composite(inverse_samples, spaces=("linalg",), out=True)
def inv(A: Tensor) -> Tensor:
    """The inverse of a square matrix."""
    return inverse_op(A, check=True)[0]


composite(inverse_samples, method=True, out=True)(renamed(inv, "inverse"))


def inv_ex_samples() -> Iterator[Sample]:
    yield Sample(invertible(2, 3, 3))
    yield Sample(invertible(3, 3), check_errors=True)
    yield Fails(RuntimeError, np.zeros((2, 2)), check_errors=True)


@composite(inv_ex_samples, spaces=("linalg",), out=True)
def inv_ex(A: Tensor, *, check_errors: bool = False) -> tuple:
    """The inverse, and for each matrix 0 or the place of the zero pivot."""
    return return_types.linalg_inv_ex(inverse_op(A, check=check_errors))


def solve_spec(A: Tensor, B: Tensor) -> Spec:
    check_matrix("linalg.solve", A, square=True)
    check_matrix("linalg.solve", B, "B")
    a, b = A._form.shape, B._form.shape
    if A._form.dtype != B._form.dtype or a[-1] != b[-2]:
        raise error(
            RuntimeError, "linalg.solve", "expected A and B of the same dtype and number of rows", A=A, B=B
        )
    return Spec((*broadcast("linalg.solve", a[:-2], b[:-2]), *b[-2:]), A.dtype)


def run_solve(A: np.ndarray, B: np.ndarray, *, check: bool) -> tuple[np.ndarray, np.ndarray]:
    return guarded("linalg.solve", lambda matrix: np.linalg.solve(matrix, B), A, check, zero_pivot, SINGULAR)


def solve_vjp(g: list, A: Tensor, out0: Tensor) -> tuple[Tensor, Tensor]:
    gradient = solve_op(adjoint(A), g[0], check=False)[0]
    return -gradient @ adjoint(out0), gradient


def solve_op_samples() -> Iterator[Sample]:
    yield Sample(invertible(3, 3), real(3, 2), check=True)
    yield Sample(invertible(2, 1, 3, 3), real(2, 3, 1, seed=1), check=False)


solve_op = opaque(
    "linalg_solve_ex",
    spec=with_info(solve_spec),
    run=run_solve,
    vjp=solve_vjp,
    samples=solve_op_samples,
    outputs=2,
)


def solve_samples() -> Iterator[Sample]:
    yield Sample(invertible(3, 3), real(3, 2))
    yield Sample(invertible(3, 3), real(3))
    yield Sample(invertible(2, 3, 3), real(2, 3))
    yield Sample(invertible(2, 3, 3), real(3, 2), left=True)
    yield Sample(invertible(3, 3), real(2, 2, 3), left=False)
    yield Fails(RuntimeError, np.zeros((2, 2)), real(2, 1))
    yield Fails(RuntimeError, invertible(3, 3), real(2, 3))
    yield Fails(RuntimeError, real(2, 3), real(2))


def solve_any(A: Tensor, B: Tensor, left: bool, check: bool) -> tuple[Tensor, Tensor]:
    """Systems from either side; B is a vector (or a stack of them) when its shape says so."""
    check_tensor("linalg.solve", B, "B")
    check_matrix("linalg.solve", A, square=True)
    a, b = A._form.shape, B._form.shape
    vector = len(b) == 1 or (len(a) - 1 == len(b) and a[:-1] == b)
    if vector and not left:
        rule = "vectors on the left are not supported: B must be a matrix when left=False"
        raise error(RuntimeError, "linalg.solve", rule, A=A, B=B)
    if not left:
        result, info = solve_op(A.mT, B.mT, check=check)
        return result.mT, info
    result, info = solve_op(A, B.unsqueeze(-1) if vector else B, check=check)
    return (result.squeeze(-1) if vector else result), info


@composite(solve_samples, spaces=("linalg",), out=True)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A·X = B, or X·A = B when `left` is false."""
    return solve_any(A, B, left, True)[0]


@composite(
    lambda: iter([Sample(invertible(3, 3), real(3, 2)), Sample(invertible(3, 3), real(3))]),
    spaces=("linalg",),
    out=True,
)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> tuple:
    """The solution, and for each matrix 0 or the place of the zero pivot."""
    return return_types.linalg_solve_ex(solve_any(A, B, left, check_errors))


# Determinants ----------------------------------------------------------------------------------------------


def det_samples() -> Iterator[Sample]:
    yield Sample(invertible(3, 3))
    yield Sample(real(2, 2, 2))
    yield Fails(RuntimeError, real(2, 3))
    yield Fails(RuntimeError, whole(2, 2))


def batch_spec(op: str, outputs: int = 1) -> Callable:
    """One number for each matrix."""

    def spec(A: Tensor) -> Any:
        check_matrix(op, A, square=True)
        kinds = (A.dtype, A.dtype.to_real())[:outputs]
        specs = [Spec(A._form.shape[:-2], kind) for kind in kinds]
        return specs if outputs > 1 else specs[0]

    return spec


def run_adjugate(A: np.ndarray) -> np.ndarray:
    """det(A)·A⁻¹ by singular values: each left out in turn, so that singular matrices have one too."""
    U, S, Vh = np.linalg.svd(A)
    others = np.ones_like(S)
    for k in range(S.shape[-1]):
        others[..., k] = np.delete(S, k, axis=-1).prod(-1)
    turn = np.linalg.det(U) * np.linalg.det(Vh)
    V, Uh = Vh.conj().swapaxes(-1, -2), U.conj().swapaxes(-1, -2)
    return turn[..., None, None] * ((V * others[..., None, :]) @ Uh)


def adjugate_vjp(g: Tensor, A: Tensor, out: Tensor) -> Tensor:
    inverse = adjoint(inverse_op(A, check=False)[0])
    along = (g * conj(out)).sum((-2, -1), keepdim=True)
    return along * inverse - inverse @ g @ adjoint(out)


adjugate = opaque(
    "adjugate",
    spec=square_spec("adjugate"),
    run=run_adjugate,
    vjp=adjugate_vjp,
    samples=lambda: iter([Sample(invertible(3, 3)), Sample(invertible(2, 2, 2))]),
)
det_op = opaque(
    "linalg_det",
    spec=batch_spec("linalg.det"),
    run=lambda A: np.linalg.det(A),
    vjp=lambda g, A: g[..., None, None] * adjoint(adjugate(A)),
    samples=lambda: iter([Sample(invertible(3, 3)), Sample(real(2, 2, 2))]),
)


@composite(det_samples, spaces=("", "linalg"), method=True, out=True)
def det(A: Tensor) -> Tensor:
    """The determinant of a square matrix."""
    return det_op(A)


def slogdet_vjp(g: list, A: Tensor, out0: Tensor) -> Tensor:
    slope = g[1]
    if A._form.dtype.kind == "c":
        turn = g[0] * conj(out0)
        slope = slope + turn - turn.real
    return slope[..., None, None] * adjoint(inverse_op(A, check=False)[0])


slogdet_op = opaque(
    "linalg_slogdet",
    spec=batch_spec("linalg.slogdet", 2),
    run=lambda A: tuple(np.linalg.slogdet(A)),
    vjp=slogdet_vjp,
    samples=lambda: iter([Sample(invertible(3, 3)), Sample(invertible(2, 2, 2))]),
    outputs=2,
)


@composite(det_samples, spaces=("linalg",), out=True)
def slogdet(A: Tensor) -> tuple:
    """The sign of the determinant and the logarithm of its absolute value."""
    return return_types.linalg_slogdet(slogdet_op(A))


@composite(det_samples, method=True)
def slogdet_(input: Tensor) -> tuple:
    """The older name of linalg.slogdet."""
    return return_types.slogdet(slogdet_op(input))


@composite(
    lambda: iter([Sample(definite(3, 3)), Sample(definite(2, 2, 2)), Fails(RuntimeError, real(2, 3))]),
    method=True,
)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN when it is negative."""
    sign, size = slogdet_op(input)
    if input._form.dtype.kind == "c":
        return size + sign.log()
    return size.masked_fill(sign == -1, float("nan"))
