"""What a compiled call gives back: the same tensors, views and graphs as an eager call.

Every case runs as it is and compiled, four times, and must say the same.
"""

import warnings

import numpy as np
import pytest

import cleargrad as cg
from tests.compile.world import runs


def in_both(case):
    """What a case says when its function is eager, and when it is compiled; it gets a wrapper for the function."""
    found = []

    def keep(function):
        found.append(cg.compile(function, backend="aot_eager"))
        return found[-1]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The .grad attribute")
        expected, said = case(lambda function: function), case(keep)
    assert said == expected
    assert runs(found[0])


def values(*tensors):
    return [None if t is None else t.detach().numpy().tolist() for t in tensors]


def four(function, width=4):
    """The results of four calls on a tensor that is another one each time."""
    found = []
    for number in range(4):
        x = cg.arange(float(width)) + number
        found.append((x, function(x)))
    return found


def test_one_tensor_twice():
    def case(wrap):
        def function(x):
            y = x * 2
            return y, {"again": y}, x

        return [(r[0] is r[1]["again"], r[2] is x) for x, r in four(wrap(function))]

    in_both(case)


def test_views_of_a_result_share_its_memory():
    def case(wrap):
        def function(x):
            y = (x * 2).reshape(2, 2)
            return y.t(), y, y[0], y.detach()

        said = []
        for _, (turned, y, row, plain) in four(wrap(function)):
            row.fill_(9)
            said.append((*values(turned, y, plain), turned.stride()))
        return said

    in_both(case)


def test_a_view_keeps_the_history_that_its_base_has_given_up():
    weight = cg.ones(4, requires_grad=True)

    def case(wrapper):
        def function(x):
            y = weight * x
            view = y.view(2, 2)
            y.detach_()
            return y, view

        results = [result for _, result in four(wrapper(function))]
        return [(y.requires_grad, view.requires_grad, values(y, view)) for y, view in results]

    in_both(case)


def test_views_of_an_argument_share_its_memory():
    def case(wrap):
        function = wrap(lambda x: (x[1:], x.detach()[:2], x * 2))
        said = []
        for x, (tail, head, _) in four(function):
            tail.mul_(3)
            head.add_(1)
            said.append(values(x))
        return said

    in_both(case)


def test_arguments_that_are_views_of_something_else():
    def case(wrap):
        function = wrap(lambda x: (x[1:], x.sum()))
        said = []
        for number in range(4):
            whole = cg.arange(6.0) * number
            function(whole[1:5])[0].zero_()
            said.append(values(whole))
        return said

    in_both(case)


def test_gradients_flow_through_views_of_results():
    def case(wrap):
        weight = cg.ones(4, requires_grad=True)

        @wrap
        def function(x):
            y = (x * weight).reshape(2, 2)
            return y, y[0]

        said = []
        for _, (y, row) in four(function):
            y.mul_(2)  # the view's history follows
            (row * row).sum().backward()
            said.append(values(weight.grad))
        return said

    in_both(case)


def test_results_with_graphs_of_their_own():
    """backward() of one leaves the other as it is, and leaves behind it get nothing, not even zeros."""

    def case(wrap):
        first, second = cg.ones(4, requires_grad=True), cg.ones(4, requires_grad=True)
        function = wrap(lambda x: ((x * first).exp().sum(), (x * second).sin().sum()))
        said = []
        for _, (one, other) in four(function):
            one.backward()
            said.append(values(first.grad, second.grad))
            other.backward()
            said.append(values(first.grad, second.grad))
            first.grad = second.grad = None
        return said

    in_both(case)


def test_a_shared_trunk_with_two_heads():
    def case(wrap):
        trunk, first, second = (cg.full((4,), 0.1, requires_grad=True) for _ in range(3))

        @wrap
        def function(x):
            inner = (x * trunk).tanh()
            return (inner * first).sum(), (inner * second).sum()

        said = []
        for _, (one, other) in four(function):
            one.backward()
            said.append(values(trunk.grad, first.grad, second.grad))
            with pytest.raises(RuntimeError, match="second time"):
                other.backward()
            trunk.grad = first.grad = second.grad = None  # a walk that fails may have left some
        return said

    in_both(case)


def test_a_result_that_is_not_walked_has_no_part_in_the_gradient():
    """The derivative of the distance is infinite at zero; zero times infinity would be NaN."""

    def case(wrap):
        weight = cg.ones(4, requires_grad=True)

        @wrap
        def function(x):
            gap = (weight - 1).square().sum().sqrt()
            return (weight * x).square().sum(), gap * weight.sum()

        said = []
        for _, (loss, _) in four(function):
            loss.backward()
            said.append(values(weight.grad))
        return said

    in_both(case)


def test_a_new_leaf():
    def case(wrap):
        function = wrap(lambda x: (x * 2).requires_grad_())
        said = []
        for _, leaf in four(function):
            (leaf * leaf).sum().backward()
            said.append((leaf.is_leaf, *values(leaf, leaf.grad)))
        return said

    in_both(case)


def test_a_view_of_what_was_filled_by_rows():
    def case(wrapper):
        def function(x):
            whole = cg.zeros(2, 4)
            row = whole[:1]
            whole.copy_(x * 2)
            return whole, row

        return [(values(*result), result[0].stride()) for _, result in four(wrapper(function))]

    in_both(case)


def test_layouts_are_those_of_eager_results():
    def case(wrap):
        def function(x):
            return x.reshape(2, 2).t() * 2

        return [(y.stride(), *values(y)) for _, y in four(wrap(function))]

    in_both(case)


def test_a_graph_that_a_write_has_spoilt():
    """Only backward() fails, not the call."""

    def case(wrap):
        weight = cg.ones(4, requires_grad=True)

        @wrap
        def function(x):
            y = (x * weight).exp()
            y.add_(1)
            return y

        said = []
        for _, y in four(function):
            with pytest.raises(RuntimeError, match="modified by an inplace"):
                y.sum().backward()
            said.append(values(y))
        return said

    in_both(case)


@pytest.mark.parametrize("outside", [False, True])
def test_a_history_written_into_a_tensor_from_outside(outside):
    def case(wrap):
        weight = cg.ones(4, requires_grad=True)
        known = cg.zeros(4)

        @wrap
        def function(x):
            (known if outside else x).add_(weight)
            return x * 2

        said = []
        for x, y in four(function):
            said.append((x.requires_grad, known.requires_grad, y.requires_grad, *values(x, known)))
        return said

    in_both(case)


def test_kept_gradients_of_results():
    def case(wrap):
        weight = cg.ones(4, requires_grad=True)

        @wrap
        def function(x):
            y = x * weight
            y.retain_grad()
            return y

        said = []
        for _, y in four(function):
            y.sum().backward()
            said.append(values(y.grad))
        return said

    in_both(case)


def test_histories_from_outside_are_asked_for_as_arguments():
    def case(wrap):
        weight = cg.ones(4, requires_grad=True)
        inner = weight.exp()
        function = wrap(lambda x: x * inner)
        said = []
        for _, y in four(function):
            y.sum().backward(retain_graph=True)
            said.append(values(weight.grad))
        return said

    in_both(case)


# Memory that is written and reached in two ways -------------------------------------------------------------


def overlapping_arguments(wrap):
    def function(a, b):
        a.mul_(2)
        return b + 1

    function, said = wrap(function), []
    for number in range(5):
        x = cg.arange(5.0) + number
        first = x[:3].clone() if number < 3 else x[:3]
        said.append(values(function(first, x[1:4]), x))
    return said


def written_outside(wrap):
    known = cg.arange(5.0)

    @wrap
    def function(x):
        known.add_(1)
        return x.flip(0) + known

    return [values(function(cg.ones(5) if number < 3 else known), known) for number in range(5)]


def written_argument(wrap):
    known = cg.arange(5.0)

    @wrap
    def function(x):
        x.add_(1)
        return (x * known).sum()

    return [values(function(cg.ones(5) if number < 3 else known.view(5)), known) for number in range(5)]


@pytest.mark.parametrize("case", [overlapping_arguments, written_outside, written_argument])
def test_memory_that_meets_later(case):
    """The program was made for memory that is apart."""
    assert case(lambda function: function) == case(lambda f: cg.compile(f, backend="aot_eager"))


def test_writes_into_detached_parts():
    def case(wrap):
        def function(x):
            y = x * 2
            first, second = y[0:3].detach(), y[1:4].detach()
            del y
            first.zero_()
            return second + 0

        return [values(y) for _, y in four(wrap(function))]

    in_both(case)


def test_arrays_of_results_are_their_own():
    def case(wrap):
        function = wrap(lambda x: (x + 1, x + 1))
        said = []
        for _, (one, other) in four(function):
            said.append(np.shares_memory(one.numpy(), other.numpy()))
        return said

    in_both(case)
