"""Writing in place: through tensors, views and aliases, with and without a history."""

from __future__ import annotations

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

LIBRARIES = pytest.mark.parametrize("T", (cg, torch), ids=("cleargrad", "torch"))


def leaf(T, *shape):
    count = 1
    for extent in shape:
        count *= extent
    return (T.arange(float(count)).reshape(shape) + 1).requires_grad_()


# Refusals --------------------------------------------------------------------------------------------------

WRITES = {
    "add_": lambda T, x: x.add_(1),
    "copy_": lambda T, x: x.copy_(T.zeros(2, 3)),
    "zero_": lambda T, x: x.zero_(),
    "exp_": lambda T, x: x.exp_(),
    "setitem": lambda T, x: x.__setitem__(0, 1.0),
    "view": lambda T, x: x[0].mul_(2),
    "iadd": lambda T, x: x.__iadd__(1),
    "clamp_": lambda T, x: x.clamp_(min=0),
    "uniform_": lambda T, x: x.uniform_(),
    "relu_": lambda T, x: x.relu_(),
    "masked_fill_": lambda T, x: x.masked_fill_(x.detach() > 0, 1.0),
    "transposed": lambda T, x: x.t().add_(1),
    "add_ another with history": lambda T, x: T.ones(2, 3).add_(x).add_(x) and x.add_(x),
}


@pytest.mark.parametrize("name", WRITES)
def test_leaves_and_their_views_refuse(name):
    def run(T):
        x = leaf(T, 2, 3)
        version = x._version
        refused = failure(lambda: WRITES[name](T, x))
        return refused, x, x._version - version, x.is_leaf

    refused = same(run)[0]
    assert repr(refused) == "RuntimeError"


@pytest.mark.parametrize(
    "name", [name for name in WRITES if name not in ("uniform_", "add_ another with history")]
)
def test_without_recording_leaves_can_be_written(name):
    def run(T):
        x = leaf(T, 2, 3)
        version = x._version
        with T.no_grad():
            WRITES[name](T, x)
        (x * 2).sum().backward()
        return x, x.is_leaf, x._version - version, x.grad

    same(run)


def test_several_views_of_one_call_refuse():
    def run(T):
        def attempt(write):
            x = leaf(T, 4, 2) * 1
            return failure(lambda: write(x)), x.grad_fn.name(), x.detach()

        return (
            attempt(lambda x: x.split(2)[0].mul_(2)),
            attempt(lambda x: x.unbind()[1].add_(1)),
            attempt(lambda x: x.chunk(2)[0].zero_()),
            attempt(lambda x: next(iter(x)).add_(1)),
            attempt(lambda x: x.split(2)[0][0].mul_(2)),
        )

    for refused, name, _ in same(run):
        assert repr(refused) == "RuntimeError"
        assert name == "MulBackward0"


def test_several_views_may_be_written_without_a_history():
    def run(T):
        x = T.arange(4.0)
        a, _ = x.split(2)
        a.mul_(10)
        with T.no_grad():
            y = leaf(T, 4)
            y.split(2)[1].add_(1)
        return x, y

    same(run)


def test_views_made_without_recording():
    def run(T):
        x = leaf(T, 3)
        base = x * 2
        with T.no_grad():
            view = base[1:]
        refused = failure(lambda: view.mul_(2))
        plain = T.zeros(3)
        with T.no_grad():
            window = plain[1:]
        refused_too = failure(lambda: window.add_(x[1:]))
        return refused, refused_too, failure(lambda: window.add_(1)), plain

    same(run)


def test_views_made_without_recording_stay_outside_the_graph():
    """PyTorch calls such a view of a leaf a leaf that requires grad; what no_grad promises is kept here."""
    x = cg.ones(3, requires_grad=True)
    with cg.no_grad():
        view = x[1:]
        x.mul_(2)
    assert not view.requires_grad
    assert view.tolist() == [2.0, 2.0]
    assert (view * 3).grad_fn is None


def test_a_product_with_itself_in_place():
    """PyTorch refuses this one in backward; the old value is kept here, so it works."""
    x = leaf(cg, 3)
    y = x * 1
    y.mul_(y)
    y[1:].mul_(y[1:])
    y.sum().backward()
    assert y.tolist() == [1.0, 16.0, 81.0]
    assert x.grad.tolist() == [2.0, 32.0, 108.0]


def test_the_edge_of_a_view_survives_being_looked_at_without_recording():
    def run(T):
        x = leaf(T, 3)
        y = x * 2
        view = y[1:]
        with T.no_grad():
            y.mul_(2)
            seen = view.requires_grad, view.is_leaf
        (view * 3).sum().backward()
        return seen, x.grad

    same(run)


def test_overlapping_and_expanded_memory_refuses():
    def run(T):
        x = T.zeros(1, 3)
        return failure(lambda: x.expand(2, 3).add_(1)), x, failure(lambda: x.expand(2, 3).copy_(T.ones(2, 3)))

    same(run)


FAILING = {
    "shape": lambda T, y: y.add_(T.ones(4, 2, 3)),
    "no broadcast": lambda T, y: y.mul_(T.ones(7)),
    "dtype": lambda T, y: y.add_(1j),
    "not a tensor": lambda T, y: y.add_("x"),
    "none": lambda T, y: y.mul_(None),
    "index": lambda T, y: y.__setitem__(9, 0.0),
    "set wrong shape": lambda T, y: y.__setitem__(0, T.ones(7)),
    "copy": lambda T, y: y.copy_(T.ones(3, 3, 3)),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_failed_write_changes_nothing(name):
    def run(T):
        y = leaf(T, 2, 3) * 2
        before = y.grad_fn, y._version, y.tolist()
        refused = failure(lambda: FAILING[name](T, y))
        assert before == (y.grad_fn, y._version, y.tolist())
        view = y[0]
        before = y.grad_fn, y._version, y.tolist()
        failure(lambda: FAILING[name](T, view))
        return refused, y.grad_fn.name(), y.tolist()

    same(run)


def test_integer_targets_refuse_floats():
    def run(T):
        x = T.arange(3)
        return failure(lambda: x.add_(0.5)), failure(lambda: x.div_(2)), failure(lambda: x.mul_(T.ones(3))), x

    same(run)


# Histories -------------------------------------------------------------------------------------------------

OPS = {
    "add_": lambda T, y, w: y.add_(w),
    "sub_ alpha": lambda T, y, w: y.sub_(w, alpha=2),
    "mul_": lambda T, y, w: y.mul_(w),
    "div_": lambda T, y, w: y.div_(w),
    "pow_": lambda T, y, w: y.pow_(w),
    "pow_ number": lambda T, y, w: y.pow_(3),
    "add_ itself": lambda T, y, w: y.add_(y),
    "div_ itself": lambda T, y, w: y.div_(y.clone()),
    "exp_": lambda T, y, w: y.exp_(),
    "log_": lambda T, y, w: y.log_(),
    "sqrt_": lambda T, y, w: y.sqrt_(),
    "sigmoid_": lambda T, y, w: y.sigmoid_(),
    "tanh_": lambda T, y, w: y.tanh_(),
    "relu_": lambda T, y, w: y.relu_(),
    "neg_": lambda T, y, w: y.neg_(),
    "abs_": lambda T, y, w: y.abs_(),
    "clamp_": lambda T, y, w: y.clamp_(2, 5),
    "copy_": lambda T, y, w: y.copy_(w),
    "fill_": lambda T, y, w: y.fill_(3.0),
    "fill_ tensor": lambda T, y, w: y.fill_(w.sum()),
    "zero_": lambda T, y, w: y.zero_(),
    "addcmul_": lambda T, y, w: y.addcmul_(w, w, value=0.5),
    "addcdiv_": lambda T, y, w: y.addcdiv_(w, w + 1),
    "lerp_": lambda T, y, w: y.lerp_(w, 0.3),
    "masked_fill_": lambda T, y, w: y.masked_fill_(y.detach() > 3, 7.0),
    "iadd": lambda T, y, w: y.__iadd__(w),
    "itruediv": lambda T, y, w: y.__itruediv__(w),
    "imul": lambda T, y, w: y.__imul__(w),
    "t": lambda T, y, w: y.cumsum_(-1),
    "setitem": lambda T, y, w: y.__setitem__(..., w * 2) or y,
    "setitem number": lambda T, y, w: y.__setitem__(0, 5.0) or y,
    "setitem mask": lambda T, y, w: y.__setitem__(y.detach() > 3, 0.0) or y,
}

VIEWS = {
    "itself": lambda y: y,
    "row": lambda y: y[1],
    "column": lambda y: y[:, 1],
    "slice": lambda y: y[:, 1:],
    "steps": lambda y: y[:, ::2],
    "transposed": lambda y: y.t(),
    "reshaped": lambda y: y.view(6),
    "diagonal": lambda y: y.diagonal(),
    "narrow": lambda y: y.narrow(1, 0, 2),
    "select": lambda y: y.select(0, 0),
    "unsqueezed": lambda y: y.unsqueeze(1),
    "view of view": lambda y: y.view(3, 2)[1:].t(),
    "element": lambda y: y[1, 2],
    "unfold": lambda y: y.unfold(1, 1, 2),
}


# A single element has no dimension to write along.
NEED_DIMENSIONS = ("setitem number", "setitem mask", "t")
PAIRS = [(view, name) for view in VIEWS for name in OPS if view != "element" or name not in NEED_DIMENSIONS]


@pytest.mark.parametrize(("view", "name"), PAIRS)
def test_writes_through_views(view, name):
    """Values, gradients of both sides, the base's and older views' histories."""

    def run(T):
        x = T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=T.float64, requires_grad=True)
        y = x * 1.5
        sibling = y[0]
        target = VIEWS[view](y)
        w = (
            T.ones(target.shape, dtype=T.float64) * 1.5
            + T.arange(float(target.numel()), dtype=T.float64).reshape(target.shape) / 4
        )
        w.requires_grad_()
        version = y._version
        returned = OPS[name](T, target, w)
        changed = y._version - version
        scale = T.arange(6.0, dtype=T.float64).reshape(2, 3) + 1
        loss = (y * scale).sum() + (sibling * 100).sum() + (target * 1000).sum()
        loss.backward()
        return y, target, sibling, changed > 0, returned is target, x.grad, w.grad

    same(run)


@pytest.mark.parametrize("view", [name for name in VIEWS if name != "itself"])
def test_a_plain_base_gets_a_history_from_a_write_through_its_view(view):
    def run(T):
        base = T.zeros(2, 3)
        old = base.view(6)
        target = VIEWS[view](base)
        w = T.ones(target.shape, requires_grad=True)
        before = base.requires_grad, old.requires_grad
        target.add_(w * 2)
        after = base.requires_grad, old.requires_grad, target.requires_grad
        (old * T.arange(6.0)).sum().backward()
        return before, after, w.grad, old.is_leaf, base.grad_fn.name().endswith("CopySlices")

    same(run)


def test_a_chain_of_writes_through_different_views():
    def run(T):
        x = leaf(T, 4)
        w = leaf(T, 4)
        base = x * 1
        left, right, middle = base[:2], base[2:], base[1:3]
        left.mul_(w[:2])
        middle.add_(left.clone())
        right *= w[2:]
        base /= 2
        left -= right
        total = (base * T.tensor([1.0, 10.0, 100.0, 1000.0])).sum() + (middle**2).sum()
        total.backward()
        return base, left, right, middle, x.grad, w.grad

    same(run)


def test_double_backward_through_writes():
    def run(T):
        x = leaf(T, 3)
        y = x * x
        y[1:].mul_(x[:2])
        y.mul_(y.clone())
        (first,) = T.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = T.autograd.grad((first * first).sum(), x)
        return first.detach(), second

    same(run, rtol=1e-4)


def test_loops_that_write_rows():
    def run(T):
        w = T.tensor([[0.5, 0.1], [0.2, 0.3]], requires_grad=True)
        rows = T.zeros(4, 2)
        state = T.ones(2)
        for k in range(4):
            state = T.tanh(w @ state)
            rows[k] = state
        rows.pow(2).sum().backward()
        return w.grad, rows

    same(run)


def test_a_view_of_a_leaf_taken_before_the_leaf_changes():
    def run(T):
        x = leaf(T, 4)
        view = x[:2]
        with T.no_grad():
            x.mul_(10)
        (view * 2).sum().backward()
        return view, x.grad, view.is_leaf

    same(run)


def test_requires_grad_on_the_base_after_the_view_was_taken():
    def run(T):
        base = T.ones(3)
        view = base[:2]
        base.requires_grad_()
        with T.no_grad():
            base.mul_(2)
        (view * 5).sum().backward()
        return view.requires_grad, base[:1].requires_grad, base.grad

    same(run)


def test_a_view_made_a_leaf_of_its_own():
    def run(T):
        base = T.ones(4)
        view = base[:2].requires_grad_()
        other = base[1:]
        refused = failure(lambda: view.add_(1))
        with T.no_grad():
            base.add_(1)
        (view * 3).sum().backward()
        return refused, view, view.grad, base.requires_grad, other.requires_grad, view.is_leaf

    same(run)


# Detaching -------------------------------------------------------------------------------------------------


def test_detach_shares_memory():
    def run(T):
        x = leaf(T, 3)
        y = x * 2
        d = y.detach()
        d[0] = 50.0
        return (
            y.detach(),
            d,
            d.is_leaf,
            d.requires_grad,
            d.data_ptr() == y.data_ptr(),
            d._version == y._version,
        )

    same(run)


def test_detach_in_place():
    def run(T):
        x = leaf(T, 3)
        y = x * 2
        z = y * 3
        y.detach_()
        (z + y).sum().backward()
        view = (x * 2)[1:]
        return y.requires_grad, y.is_leaf, x.grad, failure(view.detach_), x.detach_().requires_grad

    same(run)


def test_data():
    def run(T):
        x = leaf(T, 3)
        y = (x * x).sum()
        x.data.mul_(10)  # neither seen by autograd nor by the version
        y.backward()
        del y
        kept = x.grad.clone()
        x.data = T.zeros(5)
        x.grad = None
        (x * 2).sum().backward()
        return kept, x, x.grad, x.data.requires_grad, x.is_leaf

    same(run)


@LIBRARIES
def test_augmented_assignment_keeps_identity_and_plain_assignment_does_not(T):
    x = T.ones(3)
    y = x
    y += 1
    assert y is x and x.tolist() == [2.0, 2.0, 2.0]
    y = y + 1
    assert y is not x


@LIBRARIES
def test_augmented_assignment_to_a_slice(T):
    x = T.arange(4.0)
    view = x[1:]
    x[1:3] += 10
    assert x.tolist() == [0.0, 11.0, 12.0, 3.0]
    assert view.tolist() == [11.0, 12.0, 3.0]


def test_writes_of_an_overlapping_source():
    def run(T):
        x = T.arange(6.0)
        x[1:].copy_(x[:-1].clone())
        y = T.arange(6.0).reshape(2, 3)
        y[:, :2] = y[:, 1:].clone()
        z = T.arange(4.0).reshape(2, 2)
        z.copy_(z.t().clone())
        return x, y, z

    same(run)


def test_a_copy_of_a_leaf_is_not_a_leaf():
    def run(T):
        seen = []
        x = leaf(T, 3)
        y = T.zeros(3)
        y.copy_(x)
        kinds = y.is_leaf, y.grad_fn is None, y.requires_grad
        z = x * 2
        w = T.zeros(3)
        w.copy_(z)
        w.register_hook(lambda grad: seen.append(grad.tolist()))
        (w * 3 + z * 10).sum().backward()
        y.zero_()
        return kinds, seen, x.grad, y.requires_grad

    same(run)


def test_dtype_of_a_write():
    def run(T):
        x = leaf(T, 3)
        y = T.zeros(3, dtype=T.float64)
        y.copy_(x)
        y.sum().backward()
        h = T.zeros(3, dtype=T.float16)
        h.add_(x)
        h.sum().backward()
        return x.grad, y, h

    same(run)
