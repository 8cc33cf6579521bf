"""Version counters: a saved value that changes is refused in backward, with both lines named."""

from __future__ import annotations

import re

import pytest

import cleargrad as cg
from tests.oracle import failure, same


def leaf(T, count):
    return (T.arange(float(count)) + 1).requires_grad_()


def test_versions_are_shared_by_views_and_detached_tensors_but_not_by_data():
    def run(T):
        x = T.zeros(4)
        view, alias, hidden = x[1:], x.detach(), x.data
        view.add_(1)
        alias.mul_(2)
        hidden.add_(5)
        return x, [t._version for t in (x, view, alias, hidden)]

    same(run)


def test_a_saved_value_that_changes_is_refused():
    def run(T):
        x = leaf(T, 3)
        y = x * 1
        return [failure(lambda change=change: spoil(T, change)) for change in range(6)], y

    def spoil(T, change):
        x = leaf(T, 3)
        y = x.exp() if change != 3 else x * 1
        z = y * y
        if change == 0:
            y.add_(1)
        elif change == 1:
            y[0] = 5.0
        elif change == 2:
            y.detach().zero_()
        elif change == 3:
            y.t().mul_(3)
        elif change == 4:
            with T.no_grad():
                y.add_(1)
        else:
            y.data.add_(1)  # invisible
        z.sum().backward()
        return "passed"

    outcome = same(run)[0]
    assert outcome[5] == "passed"
    assert all(repr(each) == "RuntimeError" for each in outcome[:5])


def test_the_error_names_both_lines():
    x = cg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y.pow(2)  # saved here
    y.mul_(3)  # changed here
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        z.sum().backward()
    text = str(caught.value)
    rows = {line.split()[0]: line for line in text.splitlines()[1:]}
    assert re.search(r"test_versions\.py:\d+ .*saved here", rows["saved"])
    assert re.search(r"test_versions\.py:\d+ .*changed here", rows["changed"])
    saved, changed = (int(re.search(r"\.py:(\d+)", rows[name]).group(1)) for name in ("saved", "changed"))
    assert changed == saved + 1
    assert "PowBackward0" in text


@pytest.mark.parametrize(
    "change",
    [
        lambda y, w: y[0].mul_(2),
        lambda y, w: y.__setitem__(0, 1.0),
        lambda y, w: y.copy_(w),
        lambda y, w: y.detach().zero_(),
        lambda y, w: y.clamp_(0, 1),
        lambda y, w: y.uniform_(),
        lambda y, w: y.fill_(1.0),
    ],
)
def test_every_kind_of_write_is_named(change):
    x = cg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y * y
    change(y, cg.ones(2))
    with pytest.raises(RuntimeError) as caught:
        z.sum().backward()
    changed = next(line for line in str(caught.value).splitlines() if line.strip().startswith("changed"))
    assert "test_versions.py" in changed


def test_saved_outputs_are_checked_too():
    def run(T):
        x = leaf(T, 3)
        y = x.exp()
        y.add_(1)
        z = x.sigmoid()
        z[0] = 1.0
        return failure(y.sum().backward), failure(z.sum().backward)

    same(run)


def test_what_is_not_saved_may_be_written():
    def run(T):
        x = leaf(T, 3)
        y = x + 1
        z = y * 2
        y.mul_(5)
        w = x.detach().clone()
        q = x * w.sum()
        w.zero_()
        (z.sum() + y.sum() + q.sum()).backward()
        return x.grad

    same(run)


def test_a_write_between_two_uses():
    def run(T):
        x = leaf(T, 3)
        y = x * 2
        first = y.sum()
        y.mul_(3)
        second = y.pow(2).sum()
        (first + second).backward()
        return x.grad, y.grad_fn.name()

    same(run)
