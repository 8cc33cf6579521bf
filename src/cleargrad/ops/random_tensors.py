"""New tensors of random numbers: rand and its family, and draws whose parameters are tensors.

The ops are in ops/random.py. Read next: ops/indexing.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.autograd.node import make_leaf
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.binomial import binomial_counts
from cleargrad.core.shape import Spec, as_index, broadcast, count
from cleargrad.core.tensor import Tensor, place_of
from cleargrad.errors import error
from cleargrad.ops.apply import NUMBERS
from cleargrad.ops.conversion import LAST, contiguous_format, memory_format, preserve_format
from cleargrad.ops.creation import empty, sized, zeros_like
from cleargrad.ops.declare import composite, face, opaque
from cleargrad.ops.inplace import write_out
from cleargrad.ops.op import NO_GRAD
from cleargrad.ops.random import (
    Order,
    coin_op,
    coins_op,
    draws,
    integers_op,
    memory_order,
    normal_op,
    uniform_op,
)
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import check_tensor
from cleargrad.random import Generator, stream_of


def draw(
    door: Callable,
    name: str,
    shape: tuple[int, ...],
    parameters: tuple,
    dtype: dtypes.dtype,
    generator: Generator | None,
    device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
    order: Order = None,
) -> Tensor:
    """A new tensor of random numbers, with the options that all factories share."""
    place = devices.check(device) if out is None else place_of(out)
    kind = dtype if out is None else out.dtype
    stream = stream_of(generator, place)
    like = None if place is devices.CPU else empty(shape, dtype=kind, device=place)
    result = door(like, shape=shape, dtype=kind, order=order, stream=stream, parameters=parameters)
    if out is not None:
        return write_out(out, result, name)
    if requires_grad:
        check_float(name, kind)
        make_leaf(result)
    return result


def check_float(op: str, kind: dtypes.dtype) -> None:
    if kind.category < dtypes.FLOAT:
        rule = "only Tensors of floating point and complex dtype can require gradients"
        raise error(RuntimeError, op, rule, dtype=str(kind))


def size_samples() -> Iterator[Sample]:
    yield Sample(3)
    yield Sample(2, 3)
    yield Sample((4, 5), dtype=dtypes.float64)
    yield Sample(())
    yield Sample(0, 3)
    yield Sample(size=(40,), dtype=dtypes.float16)
    yield Fails(RuntimeError, -1)
    yield Fails(NotImplementedError, 3, dtype=dtypes.int64)
    yield Fails(TypeError, "a")


def drawn(name: str, door: Callable, parameters: tuple) -> Callable:
    """The family of rand: `name(*size)` of standard numbers."""

    def make(
        *sizes: Any,
        size: Any = None,
        generator: Generator | None = None,
        out: Tensor | None = None,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        names: Any = None,
    ) -> Tensor:
        shape = sized(name, sizes if size is None else (size,))
        kind = dtype or dtypes.get_default_dtype()
        return draw(door, name, shape, parameters, kind, generator, device, requires_grad, out)

    make.__name__ = make.__qualname__ = name
    return composite(size_samples, vjp=NO_GRAD)(make)


rand = drawn("rand", uniform_op, (0.0, 1.0))
randn = drawn("randn", normal_op, (0.0, 1.0, True))


def like_samples() -> Iterator[Sample]:
    yield Sample(real(5))
    yield Sample(real(40), dtype=dtypes.float64)
    yield Sample(real(2, 3), memory_format=contiguous_format)
    yield Fails(NotImplementedError, whole(3))
    yield Fails(TypeError, 3)


def drawn_like(name: str, door: Callable, parameters: Callable) -> Callable:
    """The family of rand_like: the shape, dtype and layout of another tensor."""

    def make(
        input: Tensor,
        *,
        generator: Generator | None = None,
        dtype: dtypes.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: memory_format = preserve_format,
    ) -> Tensor:
        check_tensor(name, input)
        order = order_like(input._form, memory_format)
        kind, shape = dtype or input.dtype, input._form.shape
        device = place_of(input) if device is None else device
        return draw(door, name, shape, parameters(order), kind, generator, device, requires_grad, order=order)

    make.__name__ = make.__qualname__ = name
    return composite(like_samples, vjp=NO_GRAD, reference=without_format(name))(make)


def without_format(name: str) -> Callable:
    """PyTorch's function, for samples that name a memory format of ours."""

    def reference(torch: Any) -> Callable:
        def call(*args: Any, memory_format: Any = None, **kwargs: Any) -> Any:
            return getattr(torch, name)(*args, **kwargs)

        return call

    return reference


def order_like(data: np.ndarray, layout: memory_format) -> Order:
    if layout is preserve_format:
        return memory_order(data)
    return LAST[layout][1] if layout in LAST else None


rand_like = drawn_like("rand_like", uniform_op, lambda order: (0.0, 1.0))
randn_like = drawn_like("randn_like", normal_op, lambda order: (0.0, 1.0, order is None))


# Integers --------------------------------------------------------------------------------------------------


def randint_samples() -> Iterator[Sample]:
    yield Sample(10, (3, 4))
    yield Sample(-5, 5, (6,))
    yield Sample(2, 2**40, size=(4,))
    yield Sample(high=3, size=(2, 2), dtype=dtypes.int32)
    yield Sample(0, 100, (5,), dtype=dtypes.float32)
    yield Fails(RuntimeError, 5, 5, (2,))
    yield Fails(RuntimeError, 300, (2,), dtype=dtypes.uint8)
    yield Fails(TypeError, 5)


def integer_bounds(op: str, positional: tuple, low: Any, high: Any) -> tuple[int, int]:
    """`(high)` or `(low, high)`, each by position or by name; low is 0 when it is not given."""
    if len(positional) == 2 and low is None and high is None:
        low, high = positional
    elif len(positional) == 1 and high is None:
        high = positional[0]
    elif len(positional) == 1 and low is None:
        low = positional[0]
    elif positional or high is None:
        raise error(TypeError, op, "expected the bounds (high) or (low, high)", got=str(positional))
    return as_index(op, 0 if low is None else low), as_index(op, high)


@composite(randint_samples, vjp=NO_GRAD)
def randint(
    *bounds: Any,
    low: Any = None,
    high: Any = None,
    size: Any = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """randint(low=0, high, size): integers from low to high − 1."""
    if size is None:
        if not bounds or not isinstance(bounds[-1], (tuple, list)):
            raise error(TypeError, "randint", "argument 'size' must be a tuple of ints")
        *bounds, size = bounds  # type: ignore[assignment]
    shape = sized("randint", (size,))
    parameters = integer_bounds("randint", tuple(bounds), low, high)
    kind = dtype or dtypes.int64
    return draw(integers_op, "randint", shape, parameters, kind, generator, device, requires_grad, out)


def randint_like_samples() -> Iterator[Sample]:
    yield Sample(real(5), 10)
    yield Sample(whole(6), -3, 3)
    yield Sample(real(5), low=1, high=9, dtype=dtypes.int64)
    yield Fails(RuntimeError, real(5), 3, 3)


@composite(randint_like_samples, vjp=NO_GRAD)
def randint_like(
    input: Tensor,
    *bounds: Any,
    low: Any = None,
    high: Any = None,
    generator: Generator | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """randint_like(input, low=0, high): integers with the shape and dtype of a tensor."""
    check_tensor("randint_like", input)
    parameters = integer_bounds("randint_like", bounds, low, high)
    kind, shape = dtype or input.dtype, input._form.shape
    order = order_like(input._form, memory_format)
    device = place_of(input) if device is None else device
    return draw(
        integers_op, "randint_like", shape, parameters, kind, generator, device, requires_grad, order=order
    )


permutation_op = draws(
    "randperm", lambda stream, shape, dtype: stream.permutation(count(shape), dtype).reshape(shape)
)


def randperm_samples() -> Iterator[Sample]:
    for n in (0, 1, 10, 50):
        yield Sample(n)
    yield Sample(7, dtype=dtypes.float32)
    yield Fails(RuntimeError, -1)
    yield Fails(RuntimeError, 300, dtype=dtypes.uint8)


@composite(randperm_samples, vjp=NO_GRAD)
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtypes.dtype = dtypes.int64,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The integers from 0 to n − 1 in random order."""
    shape = (as_index("randperm", n),)
    return draw(permutation_op, "randperm", shape, (), dtype, generator, device, requires_grad, out)


# Distributions with tensors as parameters ------------------------------------------------------------------


def normal_samples() -> Iterator[Sample]:
    yield Sample(0.5, 2.0, (3, 4))
    yield Sample(0, 1, size=(20,))
    yield Sample(real(3, 4), real(4, low=0.5))
    yield Sample(real(20), 2.0)
    yield Sample(real(20))
    yield Sample(0.5, real(5, low=0.5))
    yield Fails(RuntimeError, 0.0, -1.0, (3,))
    yield Fails(RuntimeError, real(3), -1.0)
    yield Fails(TypeError, 0.0, 1.0)


@composite(normal_samples, vjp=NO_GRAD)
def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal numbers; mean and std are numbers with a size, or tensors with values for each number."""
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    if size is not None and not tensors:
        shape = sized("normal", (size,))
        parameters = (float(mean), float(std), True)
        kind = dtype or dtypes.get_default_dtype()
        return draw(normal_op, "normal", shape, parameters, kind, generator, device, requires_grad, out)
    if not tensors or size is not None:
        raise error(TypeError, "normal", "expected tensors for mean or std, or numbers and a size")
    check_std(std)
    shape = broadcast("normal", *(x._form.shape for x in tensors))
    # PyTorch gives tensors of parameters a gradient of zero, so the numbers are drawn with them as history.
    history = next((x for x in tensors if x.requires_grad), None)
    kind = tensors[0].dtype
    place = place_of(tensors[0])
    attrs = {"shape": shape, "dtype": kind, "order": None, "stream": stream_of(generator, place)}
    if place is not devices.CPU:
        history = history or tensors[0].new_empty(shape)
    standard = normal_op(history, parameters=(0.0, 1.0, True), **attrs)
    result = (standard * constant(std) + constant(mean)).to(kind)
    return result if out is None else write_out(out, result.detach(), "normal")


def constant(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x


def check_std(std: Any) -> None:
    if isinstance(std, Tensor) and std.dtype.is_complex:
        raise error(RuntimeError, "normal", "normal expects standard deviation to be non-complex", std=std)
    if isinstance(std, NUMBERS) and not std >= 0:  # type: ignore[operator]
        raise error(RuntimeError, "normal", f"normal expects std >= 0.0, but found std {std}")


@face(coins_op, method=True, out=True)
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """One with probability `input` (or p, for all elements), else zero."""
    check_tensor("bernoulli", input)
    shape, place = input._form.shape, place_of(input)
    attrs = {"shape": shape, "dtype": input.dtype, "order": None, "stream": stream_of(generator, place)}
    if p is not None:
        beside = None if place is devices.CPU else input.new_empty(shape)
        return coin_op(beside, parameters=(p,), **attrs)
    return coins_op(None, input, **attrs)


# The generator checks these ops' arguments itself; PyTorch's own errors depend on the values as well.


def multinomial_samples() -> Iterator[Sample]:
    yield Sample(real(6, low=0.1), 3)
    yield Sample(real(2, 6, low=0.1), 8, True)
    yield Sample(real(2, 6, low=0.1), 1)
    yield Fails(RuntimeError, real(6, low=0.1), 7)
    yield Fails(RuntimeError, real(6), 2)
    yield Fails(RuntimeError, real(2, 2, 2, low=0.1), 2)


multinomial_op = opaque(
    "multinomial",
    spec=lambda x, *, count, replacement, stream: Spec((*x._form.shape[:-1], count), dtypes.int64),
    run=lambda x, *, count, replacement, stream: stream.multinomial(x, count, replacement),
    vjp=NO_GRAD,
    samples=multinomial_samples,
)


@face(multinomial_op, method=True, out=True)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices of the last dimension, drawn with the weights in `input`."""
    check_tensor("multinomial", input)
    stream = stream_of(generator, place_of(input))
    return multinomial_op(input, count=num_samples, replacement=replacement, stream=stream)


poisson_op = opaque(
    "poisson",
    spec=lambda x, *, stream: Spec(x._form.shape, x.dtype),
    run=lambda x, *, stream: stream.poisson(x),
    vjp=lambda g: zeros_like(g),
    samples=lambda: iter(
        [
            Sample(real(6, low=0.1, high=5.0)),
            Sample(real(2, 3, low=9.0, high=30.0)),
            Fails(RuntimeError, real(3)),
        ]
    ),
)


@face(poisson_op)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts of events at the rates in `input`."""
    check_tensor("poisson", input)
    return poisson_op(input, stream=stream_of(generator, place_of(input)))


def binomial_samples() -> Iterator[Sample]:
    chances = real(3, 2, low=0.05, high=0.95)
    yield Sample(np.floor(real(3, 2, low=1.0, high=20.0)), chances)
    yield Sample(np.floor(real(2, low=50.0, high=90.0)), chances)
    yield Fails(ValueError, whole(3), whole(3))


def run_binomial(count: np.ndarray, prob: np.ndarray, *, stream: Any) -> np.ndarray:
    return binomial_counts(stream, *np.broadcast_arrays(count, prob))


binomial_op = opaque(
    "binomial",
    spec=lambda count, prob, *, stream: Spec(
        broadcast("binomial", count._form.shape, prob._form.shape), count.dtype
    ),
    run=run_binomial,
    vjp=NO_GRAD,
    samples=binomial_samples,
)


@face(binomial_op)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """The number of successes in `count` trials of probability `prob`."""
    check_tensor("binomial", count, "count")
    check_tensor("binomial", prob, "prob")
    if count._form.dtype != prob._form.dtype:
        rule = "expected count and prob to have the same dtype"
        raise error(RuntimeError, "binomial", rule, count=count, prob=prob)
    return binomial_op(count, prob, stream=stream_of(generator, place_of(count)))
