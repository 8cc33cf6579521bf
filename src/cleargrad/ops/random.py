"""Random numbers as ops, and the methods that overwrite a tensor with them.

An op here draws from the stream in its attributes when it runs, so a recorded program draws anew each time it
is replayed. Values are PyTorch's for the same seed: PyTorch fills memory in the order in which it lies, hence
the attribute `order`. The streams are in core/generator.py. Read next: ops/random_tensors.py, new tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.generator import Generator as Stream
from cleargrad.core.generator import default_generator
from cleargrad.core.layout import ghost
from cleargrad.core.shape import Spec, broadcast
from cleargrad.core.tensor import Tensor, place_of
from cleargrad.ops import op as registry
from cleargrad.ops.creation import zeros_like
from cleargrad.ops.declare import opaque
from cleargrad.ops.inplace import call_inplace
from cleargrad.ops.op import NO_GRAD, Face
from cleargrad.ops.samples import Fails, Sample, real, whole
from cleargrad.ops.views import inverse
from cleargrad.random import Generator, stream_of

Order = tuple[int, ...] | None  # the dimensions as they lie in memory, outermost first; None: as they are

# The ops ---------------------------------------------------------------------------------------------------


def draws(name: str, draw: Callable, *parameters: Any) -> Callable:
    """An op that draws numbers of one distribution: `draw(stream, shape, dtype, *parameters)`.

    Its operand is the tensor to be overwritten, or None for a new one; its values do not matter, only that it
    is part of a graph, which then gets a gradient of zero. The parameters given here make a sample.
    """

    def run(
        x: np.ndarray | None,
        *,
        shape: tuple,
        dtype: dtypes.dtype,
        order: Order,
        stream: Stream,
        parameters: tuple,
    ) -> np.ndarray:
        if order is None:
            return draw(stream, shape, dtype.numpy, *parameters)
        return draw(stream, permuted(shape, order), dtype.numpy, *parameters).transpose(inverse(order))

    def samples() -> Iterator[Sample]:
        common = {
            "dtype": dtypes.float32,
            "order": None,
            "stream": default_generator,
            "parameters": parameters,
        }
        yield Sample(None, shape=(2, 3), **common)
        yield Sample(real(5), shape=(5,), **common)

    return opaque(
        name,
        spec=lambda x, *, shape, dtype, **_: Spec(shape, dtype),
        run=run,
        vjp=lambda g: zeros_like(g),
        samples=samples,
        layout=lambda *forms, shape, dtype, order, **_: in_order(shape, dtype, order),
    )


def in_order(shape: tuple, dtype: dtypes.dtype, order: Order) -> np.ndarray:
    """The layout of what is drawn."""
    if order is None:
        return ghost(shape, dtype.numpy)
    return ghost(permuted(shape, order), dtype.numpy).transpose(inverse(order))


def permuted(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in order)


uniform_op = draws(
    "uniform", lambda stream, shape, dtype, low, high: stream.uniform(shape, dtype, low, high), 0.0, 1.0
)
normal_op = draws(
    "normal",
    lambda stream, shape, dtype, mean, std, dense: stream.normal(shape, dtype, mean, std, contiguous=dense),
    0.0, 1.0, True,
)  # fmt: skip
log_normal_op = draws(
    "log_normal", lambda stream, shape, dtype, mean, std: stream.log_normal(shape, dtype, mean, std), 1.0, 2.0
)
exponential_op = draws(
    "exponential", lambda stream, shape, dtype, rate: stream.exponential(shape, dtype, rate), 1.0
)
cauchy_op = draws(
    "cauchy", lambda stream, shape, dtype, median, sigma: stream.cauchy(shape, dtype, median, sigma), 0.0, 1.0
)
geometric_op = draws("geometric", lambda stream, shape, dtype, p: stream.geometric(shape, dtype, p), 0.5)
integers_op = draws(
    "randint", lambda stream, shape, dtype, low, high: stream.integers(low, high, shape, dtype), 0, 10
)
random_op = draws("random", lambda stream, shape, dtype: stream.random(shape, dtype))
# `drops` says that the ones are a mask of dropout, which PyTorch draws in another order on a GPU.
coin_op = draws(
    "bernoulli_scalar",
    lambda stream, shape, dtype, p, drops=False: stream.bernoulli(p, shape, dtype),
    0.5,
)


def run_coins(
    x: np.ndarray | None, p: np.ndarray, *, shape: tuple, dtype: dtypes.dtype, order: Order, stream: Stream
) -> np.ndarray:
    if order is None:
        return stream.bernoulli(p, shape, dtype.numpy)
    p = np.broadcast_to(p, shape).transpose(order)
    return stream.bernoulli(p, p.shape, dtype.numpy).transpose(inverse(order))


coins_op = opaque(
    "bernoulli",
    spec=lambda x, p, *, shape, dtype, **_: Spec(broadcast("bernoulli", shape, p._form.shape), dtype),
    run=run_coins,
    vjp=(lambda g: zeros_like(g), lambda g, *, p_shape: zeros_like(g).sum_to_size(p_shape)),
    samples=lambda: iter(
        [
            Sample(real(3, low=0.1, high=0.9)),
            Sample(real(2, 3, low=0.1, high=0.9)),
            Fails(RuntimeError, real(3, high=9)),
        ]
    ),
)


# Overwriting -----------------------------------------------------------------------------------------------


def memory_order(data: np.ndarray) -> Order:
    """The order in which an array's dimensions lie in memory; None when that is their own."""
    steps = data.strides
    order = tuple(sorted((k for k in range(data.ndim)), key=lambda k: -steps[k] if data.shape[k] > 1 else 0))
    wide = [k for k in order if data.shape[k] > 1]
    return None if wide == sorted(wide) else order


def redraws(samples: Callable[[], list[Sample]]) -> Callable[[Callable], Callable]:
    """Publishes the method `name_` that fills a tensor with random numbers.

    The decorated function gets the tensor and PyTorch's arguments; it returns a door, the operands behind the
    tensor, and attributes.
    """

    def declare(choose: Callable) -> Callable:
        def write(self: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
            door, others, attrs = choose(self, *args, **kwargs)
            data = self._form
            layout = {"shape": data.shape, "dtype": self.dtype, "order": memory_order(data)}
            stream = stream_of(generator, place_of(self))
            return call_inplace(door.op, (self, *others), {**layout, **attrs, "stream": stream})

        name = choose.__name__
        write.__name__ = write.__qualname__ = name
        write.__doc__ = choose.__doc__
        registry.FACES.append(Face(name, write, (), True, None, None, samples, NO_GRAD))
        return write

    return declare


def with_parameters(door: Callable, *parameters: Any) -> tuple:
    return door, (), {"parameters": parameters}


@redraws(lambda: [Sample(real(5)), Sample(real(20), -1.0, 2.0), Fails(RuntimeError, real(5), 2.0, 1.0)])
def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0) -> tuple:
    """Uniform numbers from `from_` to `to`."""
    return with_parameters(uniform_op, from_, to)


@redraws(lambda: [Sample(real(5)), Sample(real(9), 1.0, std=2.0), Fails(RuntimeError, real(5), 2.0, -1.0)])
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0) -> tuple:
    """Normal numbers."""
    return with_parameters(normal_op, mean, std, self.is_contiguous())


@redraws(lambda: [Sample(real(5)), Sample(real(20), 0.5, 0.25), Fails(RuntimeError, real(5), 2.0, -1.0)])
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0) -> tuple:
    """Numbers whose logarithms are normal."""
    return with_parameters(log_normal_op, mean, std)


@redraws(lambda: [Sample(real(5)), Sample(real(20), 2.5), Fails(RuntimeError, real(5), -1.0)])
def exponential_(self: Tensor, lambd: float = 1.0) -> tuple:
    """Numbers with the density lambd · exp(−lambd · x)."""
    return with_parameters(exponential_op, lambd)


@redraws(lambda: [Sample(real(5)), Sample(real(20), 1.0, 2.0), Fails(RuntimeError, real(5), 0.0, -1.0)])
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0) -> tuple:
    """Numbers of the Cauchy distribution."""
    return with_parameters(cauchy_op, median, sigma)


@redraws(lambda: [Sample(real(5), 0.3), Sample(whole(20), 0.1), Fails(RuntimeError, real(5), 1.5)])
def geometric_(self: Tensor, p: float) -> tuple:
    """The number of trials up to the first success of probability p."""
    return with_parameters(geometric_op, p)


@redraws(
    lambda: [
        Sample(real(5)),
        Sample(whole(20), 10),
        Sample(whole(20), -3, 9),
        Fails(RuntimeError, real(5), 3, 3),
    ]
)
def random_(self: Tensor, *bounds: Any, to: int | None = None) -> tuple:
    """Integers: random_(to), random_(from, to), or the dtype's whole range."""
    if len(bounds) == 2:
        return with_parameters(integers_op, *bounds)
    if bounds and to is not None:
        return with_parameters(integers_op, bounds[0], to)
    last = bounds[0] if bounds else to
    return with_parameters(random_op) if last is None else with_parameters(integers_op, 0, last)


@redraws(
    lambda: [
        Sample(real(5)),
        Sample(whole(20), 0.25),
        Sample(real(5), real(5, low=0.1, high=0.9)),
        Fails(RuntimeError, real(5), 2.0),
    ]
)
def bernoulli_(self: Tensor, p: Any = 0.5) -> tuple:
    """Ones with probability p, a number or a tensor of them, and zeros."""
    return (coins_op, (p,), {}) if isinstance(p, Tensor) else with_parameters(coin_op, p)
