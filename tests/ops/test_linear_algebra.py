"""What the op matrix cannot see of products and linear algebra: graph names, failures, degenerate cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cleargrad as cg

LIBRARIES = pytest.mark.parametrize("lib", [cg, torch], ids=["cleargrad", "torch"])


def both(array: np.ndarray) -> tuple:
    return tuple(lib.from_numpy(array.copy()).requires_grad_() for lib in (cg, torch))


def assert_same(ours, theirs) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6, atol=1e-9)


@LIBRARIES
def test_names_of_nodes(lib) -> None:
    x, w, b = (
        lib.ones(2, 3, requires_grad=True),
        lib.ones(4, 3, requires_grad=True),
        lib.ones(4, requires_grad=True),
    )
    assert lib.nn.functional.linear(x, w, b).grad_fn.name() == "AddmmBackward0"
    assert lib.nn.functional.linear(x, w).grad_fn.name() == "MmBackward0"
    assert lib.mv(w, x[0]).grad_fn.name() == "MvBackward0"
    assert lib.dot(b, b).grad_fn.name() == "DotBackward0"
    assert lib.linalg.inv(lib.eye(2, requires_grad=True)).grad_fn.name() == "LinalgInvExBackward0"
    assert lib.linalg.norm(x).grad_fn.name() == "LinalgVectorNormBackward0"


@LIBRARIES
def test_linear_saves_only_what_is_needed(lib) -> None:
    x, w, b = lib.ones(2, 3), lib.ones(4, 3, requires_grad=True), lib.ones(4, requires_grad=True)
    out = lib.nn.functional.linear(x, w, b)
    with lib.no_grad():
        w.add_(1)  # the gradient of the weight needs the input alone
    out.sum().backward()
    assert w.grad.tolist() == [[2.0] * 3] * 4
    assert b.grad.tolist() == [2.0] * 4


@LIBRARIES
def test_beta_zero_ignores_the_input(lib) -> None:
    bad = lib.full((2, 2), float("nan"))
    one = lib.ones(2, 2)
    assert lib.addmm(bad, one, one, beta=0).tolist() == [[2.0, 2.0]] * 2
    assert lib.addr(bad, one[0], one[0], beta=0).tolist() == [[1.0, 1.0]] * 2
    assert lib.baddbmm(bad[None], one[None], one[None], beta=0).tolist() == [[[2.0, 2.0]] * 2]


@LIBRARIES
def test_integer_products_wrap_and_cut_fractions(lib) -> None:
    x = lib.full((1, 1), 200, dtype=lib.uint8)
    assert (x @ x).tolist() == [[40000 % 256]]
    one = lib.ones(2, 2, dtype=lib.int64)
    assert lib.addmm(one, one, one, beta=0.5, alpha=1).tolist() == [[2, 2], [2, 2]]


@LIBRARIES
def test_einsum_with_lists(lib) -> None:
    x, y = lib.arange(6.0).reshape(2, 3), lib.arange(12.0).reshape(3, 4)
    expected = (x @ y).tolist()
    assert lib.einsum(x, [0, 1], y, [1, 2], [0, 2]).tolist() == expected
    assert lib.einsum(x, [0, 1], y, [1, 2]).tolist() == expected
    assert lib.einsum(x, [..., 1], y, [1, 7], [..., 7]).tolist() == expected
    assert lib.einsum("ij,jk->ik", [x, y]).tolist() == expected


@LIBRARIES
def test_singular_matrices(lib) -> None:
    singular = lib.ones(2, 2)
    for function in (lib.linalg.inv, lib.inverse, lambda A: lib.linalg.solve(A, singular)):
        with pytest.raises(lib.linalg.LinAlgError):
            function(singular)
    with pytest.raises(lib.linalg.LinAlgError):
        lib.linalg.cholesky(-singular)
    pair = lib.stack([lib.eye(2), singular])
    inverse, info = lib.linalg.inv_ex(pair)
    assert info.tolist() == [0, 2]
    assert inverse[0].tolist() == lib.eye(2).tolist()
    assert lib.linalg.cholesky_ex(lib.stack([lib.eye(2), -singular])).info.tolist() == [0, 1]
    assert issubclass(lib.linalg.LinAlgError, RuntimeError)


def test_determinant_of_singular_matrices_has_a_gradient() -> None:
    """The matrix of cofactors; PyTorch, which divides by the determinant, gives zeros."""
    matrix = cg.tensor(
        [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]], dtype=cg.float64, requires_grad=True
    )
    cg.det(matrix).backward()
    cofactors = [[4.0, 4.0, -4.0], [-2.0, -2.0, 2.0], [0.0, 0.0, 0.0]]
    np.testing.assert_allclose(matrix.grad.numpy(), cofactors, atol=1e-12)


def test_repeated_singular_values_do_not_disturb_the_values_gradient() -> None:
    ours, theirs = both(np.eye(3) * 2)
    cg.linalg.svd(ours).S.sum().backward()
    torch.linalg.svd(theirs).S.sum().backward()
    assert_same(ours.grad, theirs.grad)
    ours, theirs = both(np.eye(3) * 2)
    cg.linalg.eigvalsh(ours).sum().backward()
    torch.linalg.eigvalsh(theirs).sum().backward()
    assert_same(ours.grad, theirs.grad)


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, float("inf")])
def test_distance_of_equal_points_has_gradient_zero(p: float) -> None:
    ours, theirs = both(np.zeros((2, 3)))
    (cg.cdist(ours, ours * 1, p).sum() + cg.linalg.vector_norm(ours, p)).backward()
    (torch.cdist(theirs, theirs * 1, p).sum() + torch.linalg.vector_norm(theirs, p)).backward()
    assert_same(ours.grad, theirs.grad)


def test_many_points_take_the_matrix_product() -> None:
    rows = np.random.default_rng(0).standard_normal((40, 3))
    (ours, theirs), (other, others) = both(rows), both(rows[:30] + 1)
    left, right = cg.cdist(ours, other), torch.cdist(theirs, others)
    assert_same(left, right)
    left.pow(2).sum().backward()
    right.pow(2).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-6)


@LIBRARIES
def test_empty_matrices(lib) -> None:
    empty = lib.zeros(0, 0)
    assert lib.det(empty).item() == 1.0
    assert tuple(lib.linalg.inv(empty).shape) == (0, 0)
    assert tuple(lib.linalg.cholesky(empty).shape) == (0, 0)
    assert tuple(lib.linalg.svdvals(lib.zeros(0, 3)).shape) == (0,)
    assert tuple(lib.linalg.qr(lib.zeros(0, 3)).R.shape) == (0, 3)
    assert (lib.ones(2, 0) @ lib.ones(0, 3)).tolist() == [[0.0] * 3] * 2


@LIBRARIES
def test_results_have_names(lib) -> None:
    matrix = lib.eye(2) * 2
    assert lib.linalg.svd(matrix).Vh.tolist() == lib.eye(2).tolist()
    assert lib.svd(matrix).V.tolist() == lib.eye(2).tolist()
    assert lib.linalg.slogdet(matrix).sign.item() == 1.0
    assert lib.linalg.eigh(matrix).eigenvalues.tolist() == [2.0, 2.0]
    assert lib.linalg.lu_factor(matrix).pivots.tolist() == [1, 2]
    assert lib.linalg.lstsq(matrix, matrix).solution.tolist() == lib.eye(2).tolist()
    assert lib.linalg.qr(matrix).R.abs().tolist() == matrix.tolist()


@LIBRARIES
def test_non_finite_input_does_not_converge(lib) -> None:
    with pytest.raises(lib.linalg.LinAlgError):
        lib.linalg.svd(lib.full((2, 2), float("nan")))
    with pytest.raises(RuntimeError):
        lib.linalg.eig(lib.full((2, 2), float("nan")))


@LIBRARIES
def test_out_and_in_place(lib) -> None:
    x = lib.ones(2, 2)
    target = lib.zeros(2, 2)
    assert lib.mm(x, x, out=target) is target
    assert target.addmm_(x, x) is target
    assert target.tolist() == [[4.0, 4.0]] * 2
    values, vectors = lib.zeros(2), lib.zeros(2, 2)
    lib.linalg.eigh(lib.eye(2), out=(values, vectors))
    assert values.tolist() == [1.0, 1.0]
    assert x.renorm_(2, 0, 1.0) is x
    assert x[0].norm().item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl_factor_is_lapacks(hermitian: bool) -> None:
    """Pivots included, whose choice between blocks of one and two rows shows in every entry."""
    generator = np.random.default_rng(0)
    for n in (1, 2, 3, 6, 9):
        A = generator.standard_normal((4, n, n)) + 1j * generator.standard_normal((4, n, n))
        A = A + (A.conj() if hermitian else A).swapaxes(-1, -2)
        A[:2, range(n), range(n)] = 0
        ours = cg.linalg.ldl_factor_ex(cg.from_numpy(A), hermitian=hermitian)
        theirs = torch.linalg.ldl_factor_ex(torch.from_numpy(A), hermitian=hermitian)
        assert ours.pivots.tolist() == theirs.pivots.tolist()
        assert ours.info.tolist() == theirs.info.tolist()
        np.testing.assert_allclose(ours.LD.numpy(), theirs.LD.numpy(), rtol=1e-9, atol=1e-9)


def test_low_rank_svd_of_a_matrix_of_low_rank() -> None:
    A = cg.randn(20, 3, dtype=cg.float64) @ cg.randn(3, 15, dtype=cg.float64)
    for matrix in (A, A.T):
        U, S, V = cg.svd_lowrank(matrix, 5)
        assert cg.allclose(U @ cg.diag(S) @ V.T, matrix)
    U, S, V = cg.pca_lowrank(A, 4)
    assert cg.allclose(U @ cg.diag(S) @ V.T, A - A.mean(0))


def test_large_products_of_turned_stacks() -> None:
    """Rows that do not lie one after the other, as those of a batch that was given first."""
    numbers = np.random.default_rng(0)
    x, w = numbers.standard_normal((24, 16, 32)), numbers.standard_normal((48, 32))
    (ours, theirs), (our_w, their_w) = both(x), both(w)
    out, expected = ours.transpose(0, 1) @ our_w.T, theirs.transpose(0, 1) @ their_w.T
    assert_same(out, expected)
    assert out.stride() == expected.stride()
    out.square().sum().backward()
    expected.square().sum().backward()
    assert_same(ours.grad, theirs.grad)
    assert_same(our_w.grad, their_w.grad)
