"""torch.autograd.Function: both styles, what is saved, what may be returned, and what is refused."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import cleargrad as cg
from tests.oracle import failure, same

LIBRARIES = pytest.mark.parametrize("T", (cg, torch), ids=("cleargrad", "torch"))


def cube(T):
    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x**2

    return Cube


def scale_new_style(T):
    class Scale(T.autograd.Function):
        @staticmethod
        def forward(x, factor, label):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, factor, label = inputs
            ctx.factor, ctx.label = factor, label
            ctx.save_for_backward(x, output)

        @staticmethod
        def backward(ctx, grad):
            _, out = ctx.saved_tensors
            assert ctx.label == "label"
            return grad * ctx.factor + 0 * out, None, None

    return Scale


def test_both_styles():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = cube(T).apply(x)
        z = scale_new_style(T).apply(y, 5.0, "label")
        z.sum().backward()
        return y, z, x.grad, y.grad_fn.name(), type(z.grad_fn).__name__

    same(run)


def test_double_backward():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        (first,) = T.autograd.grad(cube(T).apply(x).sum(), x, create_graph=True)
        (second,) = T.autograd.grad(first.sum(), x, create_graph=True)
        (third,) = T.autograd.grad(second.sum(), x)
        return first, second, third

    same(run)


def test_a_backward_made_of_a_function():
    def run(T):
        class Sine(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.sin()

            @staticmethod
            def backward(ctx, grad):
                return grad * Cosine.apply(*ctx.saved_tensors)

        class Cosine(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.cos()

            @staticmethod
            def backward(ctx, grad):
                return -grad * Sine.apply(*ctx.saved_tensors)

        x = T.tensor([0.3, 1.2], requires_grad=True)
        (first,) = T.autograd.grad(Sine.apply(x).sum(), x, create_graph=True)
        (second,) = T.autograd.grad(first.sum(), x)
        return first, second

    same(run)


def test_saving_inputs_outputs_and_others():
    def run(T):
        class Softplus(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                middle = x.exp() + 1
                out = middle.log()
                ctx.save_for_backward(x, out, middle, None, y)
                ctx.shape = x.shape
                return out, middle

            @staticmethod
            def backward(ctx, grad, grad_middle):
                x, out, middle, nothing, y = ctx.saved_tensors
                assert nothing is None
                seen.append((x.requires_grad, out.requires_grad, middle.requires_grad, y.requires_grad))
                return grad * x.exp() / middle + grad_middle * x.exp() + 0 * out, None

        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        out, middle = Softplus.apply(x, T.ones(2))
        (out.sum() + 2 * middle.sum()).backward()
        return out, middle, x.grad, seen, out.grad_fn is middle.grad_fn, middle.output_nr

    same(run)


def test_saved_tensors_are_checked_and_freed():
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        z = cube(T).apply(y)
        y.add_(1)
        changed = failure(z.sum().backward)
        w = cube(T).apply(x)
        w.sum().backward()
        return changed, failure(w.sum().backward), failure(lambda: w.grad_fn.saved_tensors)

    same(run)


def test_needs_input_grad_and_none():
    def run(T):
        seen = []

        class Product(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, y, number):
                seen.append(ctx.needs_input_grad)
                ctx.save_for_backward(x, y)
                return x * y * number

            @staticmethod
            def backward(ctx, grad):
                x, y = ctx.saved_tensors
                seen.append(ctx.needs_input_grad)
                for_x, for_y, _ = ctx.needs_input_grad
                return grad * y if for_x else None, grad * x if for_y else None, None

        x, y = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([3.0, 4.0])
        Product.apply(x, y, 1.0).sum().backward()
        Product.apply(y, x, 1.0).sum().backward()
        with T.no_grad():
            out = Product.apply(x, y, 2.0)
        return seen, x.grad, out

    same(run)


def wrong(T, returned):
    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, grad):
            return returned(grad)

    return Wrong


@pytest.mark.parametrize(
    "returned",
    [
        lambda g: g,
        lambda g: (g, g, g),
        lambda g: (g,),
        lambda g: (g, g, None),
        lambda g: (g, 1.0),
        lambda g: (g, "no"),
        lambda g: (None, g),
        lambda g: (None, None),
        lambda g: (g, g.sum()),
        lambda g: (g.reshape(1, 2), g),
        lambda g: (g.reshape(2, 1), g),
        lambda g: ([g, g][0].double(), g),
        lambda g: [g, g],
    ],
)
def test_what_backward_may_return(returned):
    def run(T):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = T.tensor([1.0, 2.0], requires_grad=True)
        outcome = failure(wrong(T, returned).apply(x, y).sum().backward)
        return outcome, (None if outcome is not None else (x.grad, y.grad))

    same(run)


def test_mark_dirty():
    def run(T):
        class Double(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(2)
                ctx.mark_dirty(x)
                return x

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x * 1
        out = Double.apply(y)
        out.sum().backward()
        base = T.tensor([1.0, 2.0, 3.0], requires_grad=True) * 1
        view_grad = failure(lambda: Double.apply(base[1:]).sum().backward() or base.requires_grad)
        leaf = failure(lambda: Double.apply(x))
        return out is y, y, x.grad, y.grad_fn.name(), leaf, y._version, view_grad

    same(run)


def test_mark_non_differentiable():
    def run(T):
        class Sort(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                values, order = x.sort()
                extra = x * 2
                ctx.mark_non_differentiable(order, extra)
                ctx.save_for_backward(order)
                return values, order, extra

            @staticmethod
            def backward(ctx, grad, *others):
                seen.append([None if other is None else other.tolist() for other in others])
                (order,) = ctx.saved_tensors
                return T.zeros_like(grad).scatter(0, order, grad)

        seen = []
        x = T.tensor([3.0, 1.0, 2.0], requires_grad=True)
        values, order, extra = Sort.apply(x)
        (values * T.tensor([1.0, 10.0, 100.0])).sum().backward()
        return values, order, extra, x.grad, seen

    same(run)


def test_gradients_that_never_came():
    def run(T):
        seen = []

        def function(materialize):
            class Two(T.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.set_materialize_grads(materialize)
                    return x * 2, x * 3

                @staticmethod
                def backward(ctx, first, second):
                    seen.append((first is None, second is None))
                    return (0 if first is None else first * 2) + (0 if second is None else second * 3)

            return Two

        for materialize in (True, False):
            x = T.tensor([1.0, 2.0], requires_grad=True)
            function(materialize).apply(x)[1].sum().backward()
            seen.append(x.grad.tolist())
        return seen

    same(run)


def test_once_differentiable():
    def run(T):
        class Square(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @T.autograd.function.once_differentiable
            def backward(ctx, grad):
                seen.append(T.is_grad_enabled())
                return 2 * grad * ctx.saved_tensors[0]

        seen = []
        x = T.tensor([1.0, 2.0], requires_grad=True)
        Square.apply(x).sum().backward()
        y = x * 2
        (first,) = T.autograd.grad((Square.apply(y) ** 2).sum(), x, create_graph=True)
        return x.grad, first.detach(), failure(first.sum().backward), seen

    same(run)


def test_an_input_returned_as_it_is():
    def run(T):
        class Same(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, grad):
                return grad * 10

        class ViewAs(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, grad):
                return grad * 10

        x = T.tensor([1.0, 2.0], requires_grad=True)
        out = Same.apply(x)
        out.sum().backward()
        other = ViewAs.apply(x)
        other.sum().backward()
        plain = T.ones(2)
        names = out.grad_fn.name(), other.grad_fn.name()
        return out is x, x.is_leaf, *names, x.grad, Same.apply(plain).requires_grad

    same(run)


def test_outputs_that_are_not_tensors_and_inputs_in_lists():
    def run(T):
        class Mixed(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, items):
                return x * 2, "text", 3

            @staticmethod
            def backward(ctx, grad, *rest):
                return grad * 2, None

        x = T.tensor([1.0, 2.0], requires_grad=True)
        out, text, number = Mixed.apply(x, [x, x])
        out.sum().backward()
        return out, text, number, x.grad

    same(run)


def test_an_integer_output_has_no_gradient():
    def run(T):
        class Position(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.argmax(), x * 2

            @staticmethod
            def backward(ctx, position, grad):
                return grad * 2

        x = T.tensor([1.0, 5.0], requires_grad=True)
        position, out = Position.apply(x)
        out.sum().backward()
        return position, position.requires_grad, x.grad

    same(run)


def test_refusals():
    def run(T):
        class NoBackward(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        class NoForward(T.autograd.Function):
            pass

        class SavesNumbers(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(1.0)
                return x * 2

        x = T.tensor([1.0, 2.0], requires_grad=True)
        return (
            failure(NoBackward.apply(x).sum().backward),
            failure(lambda: NoForward.apply(x)),
            failure(lambda: SavesNumbers.apply(x)),
        )

    same(run)


def test_forward_does_not_record():
    def run(T):
        class Quiet(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                seen.append((T.is_grad_enabled(), (x * 2).requires_grad, x.requires_grad))
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                seen.append(T.is_grad_enabled())
                return grad

        seen = []
        x = T.tensor([1.0], requires_grad=True)
        Quiet.apply(x).backward()
        T.autograd.grad(Quiet.apply(x), x, create_graph=True)
        return seen

    same(run)


@LIBRARIES
def test_ctx_keeps_attributes_and_dies_with_the_graph(T):
    class Keeps(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.note = Note()
            notes.append(weakref.ref(ctx.note))
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    class Note:
        pass

    notes = []
    x = T.ones(2, requires_grad=True)
    y = Keeps.apply(x)
    assert y.grad_fn.note is notes[0]()
    del y
    gc.collect()
    assert notes[0]() is None


def test_names_of_wrong_gradients():
    def returned(grad):
        return grad, grad, grad

    x = cg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"WrongBackward.*expected 2, got 3"):
        wrong(cg, returned).apply(x, x).sum().backward()
