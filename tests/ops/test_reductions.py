"""What the op matrix cannot see of reductions, scans and sorting: ties, NaN, empty lines, accuracy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

import cleargrad as cg

NAN, INF = float("nan"), float("inf")


def both(expression: str) -> tuple:
    """The expression's value, or the type of its error, here and in PyTorch."""
    results = []
    for library in (cg, torch):
        try:
            results.append(repr(eval(expression, {"torch": library, "nan": NAN, "inf": INF})))
        except Exception as failure:
            # PyTorch is not consistent between these two; the second is a kind of the first.
            kind = type(failure)
            results.append(RuntimeError if kind is NotImplementedError else kind)
    return tuple(results)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "expression",
    [
        "torch.tensor([[1.0, 5.0], [4.0, 2.0]]).max(dim=1)",
        "torch.tensor([[1.0, 5.0], [4.0, 2.0]]).aminmax(dim=0)",
        "torch.max(torch.tensor([1.0, 5.0]), torch.tensor([4.0, 2.0]))",
        "torch.max(torch.tensor([1.0, 5.0]), other=torch.tensor([4.0, 2.0]))",
        "torch.tensor([1, 2, 3]).sum(dtype=torch.int32)",
        "torch.tensor([1, 2, 3]).sum(dtype=torch.bool)",
        "torch.tensor([[1.0, 2.0], [3.0, 4.0]]).sum([])",
        "torch.tensor([[1.0, 0.0], [3.0, 4.0]]).all(dim=[])",
        "torch.tensor([1, 0], dtype=torch.uint8).any()",
        "torch.zeros(0, 3).amax()",
        "torch.zeros(0, 3).amax((0, 1))",
        "torch.zeros(0, 3).argmax()",
        "torch.zeros(0, 3).max(1)",
        "torch.zeros(0, 3).mean(0)",
        "torch.zeros(0, 3).median()",
        "torch.zeros(0, 3).unique(dim=1)",
        "torch.zeros(1).var()",
        "torch.tensor([[1.0, 2.0, 4.0]]).var(correction=5)",
        "torch.tensor(3.0).topk(0)",
        "torch.tensor(3.0).quantile(torch.tensor([0.5, 0.2]), 0, True)",
        "torch.tensor([1.0, nan, 2.0, nan]).sort(descending=True)",
        "torch.tensor([1.0, nan, 2.0, nan]).topk(3)",
        "torch.tensor([1.0, nan, 2.0, nan]).min(0)",
        "torch.tensor([1.0, nan, 2.0, nan]).median(0)",
        "torch.tensor([1.0, nan, 2.0, nan]).nanmedian(0)",
        "torch.tensor([1.0, nan, 2.0, nan]).mode()",
        "torch.tensor([1.0, nan, 2.0, nan]).cummin(0)",
        "torch.tensor([1.0, nan, 2.0, nan]).quantile(0.3)",
        "torch.tensor([1.0, nan, 2.0, nan]).unique()",
        "torch.tensor([-inf, -inf]).logsumexp(0)",
        "torch.tensor([-inf, 1.0, -inf, 2.0]).logcumsumexp(0)",
        "torch.tensor([3, 1, 3, 1, 3]).cummax(0)",
        "torch.tensor([3, 1, 3, 1, 3]).sort(descending=True, stable=True)",
        "torch.tensor([3, 1, 3, 1, 3]).mode()",
        "torch.searchsorted(torch.tensor([1.0, 3.0, nan]), nan)",
        "torch.searchsorted(torch.tensor([1, 3, 5]), 3.5)",
        "torch.tensor([1.0, inf]).histc(3)",
        "torch.tensor([1.0, 1.0]).histc(4)",
        "torch.tensor([1, 2], dtype=torch.int8).cumsum_(0)",
        "torch.norm(torch.tensor([[3.0, 4.0]]), 'nuc')",
        "torch.norm(torch.tensor([3, 4]))",
    ],
)
def test_like_pytorch(expression: str) -> None:
    ours, theirs = both(expression)
    assert ours == theirs


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("x.amax(1)", [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]),
        ("x.max()", [1.0, 3.0, 3.0]),
        ("x.max(0)[0]", [1.0, 3.0, 3.0]),
        ("x.median()", [1.0, 2.0, 2.0, 3.0]),
        ("x.mode()[0]", [1.0, 2.0, 2.0, 3.0]),
        ("x.cummax(0)[0]", [1.0, 2.0, 2.0, 3.0, 1.0]),
        ("x.std()", [1.0, 1.0, 1.0]),
        ("x.prod()", [1.0, 0.0, 0.0]),
        ("x.cumprod(0)", [2.0, 0.0, 3.0, 0.0]),
    ],
)
def test_gradient_at_ties_and_zeros(expression: str, values: list) -> None:
    """Where a function has corners, the gradient is the one PyTorch chose."""
    grads = []
    for library in (cg, torch):
        x = library.tensor(values, requires_grad=True)
        y = eval(expression, {"x": x})
        grads.append(library.autograd.grad((y * y + y).sum(), x)[0].numpy())
    np.testing.assert_allclose(*grads, rtol=1e-6)


@pytest.mark.parametrize("shape, dim", [((65537, 3), 0), ((3, 5000, 7), 1), ((4, 300, 300), (0, 1))])
def test_long_sums_are_accurate(shape: tuple, dim: int) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    exact = x.astype(np.float64).sum(dim)
    np.testing.assert_allclose(cg.from_numpy(x).sum(dim).numpy(), exact, rtol=5e-7)
    np.testing.assert_allclose(cg.from_numpy(x).mean(dim).numpy() * (x.size / exact.size), exact, rtol=5e-7)


def test_variance_of_one_element_warns() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert cg.zeros(1).var().isnan().item()


def test_named_results_are_tuples() -> None:
    values, indices = pair = cg.tensor([2.0, 1.0]).sort()
    assert pair.values is values and pair[1] is indices and isinstance(pair, tuple)
    assert type(pair)((1, 2)) == (1, 2)
    assert pickle.loads(pickle.dumps(type(pair)((1, 2)))).indices == 2


def test_topk_of_a_long_line_is_the_head_of_its_order() -> None:
    x = cg.from_numpy(np.random.default_rng(0).permutation(1000).astype(np.float32))
    for largest in (True, False):
        values, indices = x.topk(7, largest=largest)
        expected, order = x.sort(descending=largest)
        assert values.tolist() == expected[:7].tolist() and indices.tolist() == order[:7].tolist()
