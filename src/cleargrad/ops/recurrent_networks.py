"""torch.lstm, gru, rnn_tanh and rnn_relu: stacks of recurrent layers; and the cells, which take one step.

Each function takes padded sequences, or packed ones together with their batch sizes, as PyTorch's do. Read
next: ops/attention.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cleargrad.core.mode import mode
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite
from cleargrad.ops.dropout import dropout_
from cleargrad.ops.joining import cat, stack
from cleargrad.ops.linear import linear
from cleargrad.ops.recurrent import Sizes, gru_layer, lstm_layer, rnn_layer, rnn_parts
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import check_tensor

# One layer in one direction: (input, states, weights, sizes, reverse) -> output, last states -------------


def together(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


def like(kind: Tensor, x: Tensor) -> Tensor:
    """Under autocast products come out narrow, and one of the two must follow the other."""
    return x if mode.autocast is None else x.to(kind.dtype)


def rnn_direction(relu: bool) -> Callable:
    def run(
        x: Tensor, states: Sequence[Tensor], weights: Sequence, sizes: Sizes, reverse: bool
    ) -> tuple[Tensor, tuple]:
        w_ih, w_hh, b_ih, b_hh, _ = weights
        gates = linear(x, w_ih, together(b_ih, b_hh))
        h, w_hh = like(gates, states[0]), like(gates, w_hh)
        layer = rnn_layer if gates.is_floating_point() else rnn_parts  # tanh makes floats of integers
        out, last = layer(gates, h, w_hh, relu=relu, sizes=sizes, reverse=reverse)
        return out, (last,)

    return run


def lstm_direction(
    x: Tensor, states: Sequence[Tensor], weights: Sequence, sizes: Sizes, reverse: bool
) -> tuple[Tensor, tuple]:
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    gates = like(states[0], linear(x, w_ih, together(b_ih, b_hh)))
    out, h, c, _, _ = lstm_layer(gates, *states, w_hh, w_hr, sizes=sizes, reverse=reverse)
    return out, (h, c)


def gru_direction(
    x: Tensor, states: Sequence[Tensor], weights: Sequence, sizes: Sizes, reverse: bool
) -> tuple[Tensor, tuple]:
    w_ih, w_hh, b_ih, b_hh, _ = weights
    gates = like(states[0], linear(x, w_ih, b_ih))
    out, last, _, _ = gru_layer(gates, states[0], w_hh, b_hh, sizes=sizes, reverse=reverse)
    return out, (last,)


# Layers upon layers ----------------------------------------------------------------------------------------


def grouped(name: str, params: Sequence[Tensor], has_biases: bool, groups: int) -> list[tuple]:
    """For each layer and direction (w_ih, w_hh, b_ih, b_hh, w_hr), None for what there is not."""
    size, rest = divmod(len(params), groups)
    plain = 4 if has_biases else 2
    if rest or size not in (plain, plain + 1):
        rule = f"got an incorrect number of RNN parameters: {len(params)} for {groups} layers and directions"
        raise error(RuntimeError, name, rule)
    found = []
    for start in range(0, len(params), size):
        w_ih, w_hh, *others = params[start : start + size]
        biases = others[:2] if has_biases else (None, None)
        found.append((w_ih, w_hh, *biases, others[-1] if size > plain else None))
    return found


def run_layers(
    name: str, direction: Callable, x: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor],
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, sizes: Sizes,
) -> tuple:  # fmt: skip
    """The output of the last layer, and the last states of all, stacked."""
    ways = 2 if bidirectional else 1
    groups = grouped(name, params, has_biases, num_layers * ways)
    if any(len(state) != num_layers * ways for state in hx):
        raise error(RuntimeError, name, f"expected states of {num_layers * ways} layers and directions")
    starts = list(zip(*[state.unbind(0) for state in hx], strict=True))
    finals = []
    for layer in range(num_layers):
        outs = []
        for way in range(ways):
            number = layer * ways + way
            out, last = direction(x, starts[number], groups[number], sizes, way == 1)
            outs.append(out)
            finals.append(last)
        x = cat(outs, -1) if bidirectional else outs[0]
        if dropout and train and layer < num_layers - 1:
            x = dropout_(x, dropout, train)
    return x, *[stack(states) for states in zip(*finals, strict=True)]


def padded(name: str, direction: Callable) -> Callable:
    """The form for padded sequences, (steps, batch, width)."""

    def function(
        input: Tensor, hx: Any, params: Sequence[Tensor], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple:  # fmt: skip
        check_tensor(name, input)
        x = input.transpose(0, 1) if batch_first else input
        steps, batch = x._form.shape[:2]
        if not steps:
            raise error(
                RuntimeError, name, "Expected sequence length to be larger than 0 in RNN", input=input
            )
        hx = (hx,) if isinstance(hx, Tensor) else hx
        settings = (has_biases, num_layers, dropout, train, bidirectional)
        out, *last = run_layers(name, direction, x, hx, params, *settings, (batch,) * steps)
        return out.transpose(0, 1) if batch_first else out, *last

    return function


def packed(name: str, direction: Callable) -> Callable:
    """The form for packed sequences: rows, and how many sequences each step has."""

    def function(
        data: Tensor, batch_sizes: Tensor, hx: Any, params: Sequence[Tensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool,
    ) -> tuple:  # fmt: skip
        check_tensor(name, data)
        hx = (hx,) if isinstance(hx, Tensor) else hx
        settings = (has_biases, num_layers, dropout, train, bidirectional)
        return run_layers(name, direction, data, hx, params, *settings, tuple(batch_sizes.tolist()))

    return function


def network(name: str, direction: Callable, gates: int, states: int) -> Callable:
    """The public function: the form is told by whether the second or third argument is a tensor."""
    of_padded, of_packed = padded(name, direction), packed(name, direction)
    place = 1 if states == 2 else 2

    def function(*args: Any, **kwargs: Any) -> tuple:
        is_packed = "batch_sizes" in kwargs or (len(args) > place and isinstance(args[place], Tensor))
        return (of_packed if is_packed else of_padded)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The networks behind nn.{name.partition('_')[0].upper()}: outputs and last states."
    return composite(network_samples(gates, states))(function)


def network_samples(gates: int, states: int) -> Callable[[], Iterator[Sample]]:
    def weights(width: int, count: int = 1) -> list:
        shapes = ((2 * gates, width), (2 * gates, 2), (2 * gates,), (2 * gates,))
        return [real(*shape, seed=k, low=-1, high=1) for k, shape in enumerate(shapes * count)]

    def start(layers: int, batch: int) -> Any:
        found = [real(layers, batch, 2, seed=k) for k in range(states)]
        return found if states == 2 else found[0]

    def samples() -> Iterator[Sample]:
        plain = (True, 1, 0.0, False, False)
        yield Sample(real(3, 2, 3), start(1, 2), weights(3), *plain, False)
        yield Sample(real(2, 3, 3), start(2, 2), weights(3, 2), True, 1, 0.0, False, True, True)
        without = [w for w in weights(3) if w.ndim == 2] + [w for w in weights(2) if w.ndim == 2]
        yield Sample(real(2, 1, 3), start(2, 1), without, False, 2, 0.5, True, False, False)
        sizes = np.array([2, 2, 1])
        yield Sample(real(5, 3), sizes, start(2, 2), weights(3, 2), True, 1, 0.0, False, True)
        if states == 2:
            projected = [real(8, 3), real(8, 1), real(8), real(8, seed=1), real(1, 2)]
            yield Sample(real(2, 2, 3), [real(1, 2, 1), real(1, 2, 2)], projected, *plain, False)
        yield Fails(RuntimeError, real(0, 2, 3), start(1, 2), weights(3), *plain, False)
        yield Fails(RuntimeError, real(3, 2, 3), start(1, 2), weights(3)[:3], *plain, False)
        yield Fails(RuntimeError, real(3, 2, 3), start(1, 2), weights(4), *plain, False)

    return samples


lstm = network("lstm", lstm_direction, 4, 2)
gru = network("gru", gru_direction, 3, 1)
rnn_tanh = network("rnn_tanh", rnn_direction(False), 1, 1)
rnn_relu = network("rnn_relu", rnn_direction(True), 1, 1)


# Cells -----------------------------------------------------------------------------------------------------


def check_cell(name: str, input: Tensor, states: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor) -> Sizes:
    check_tensor(name, input)
    shape, width = input._form.shape, w_ih._form.shape[1]
    if len(shape) != 2 or shape[1] != width:
        raise error(RuntimeError, name, f"input has inconsistent input_size: expected {width}", input=input)
    hidden = w_hh._form.shape[1]
    for number, state in enumerate(states):
        batch, *width = state._form.shape
        if batch != shape[0]:
            rule = f"Input batch size {shape[0]} doesn't match hidden{number} batch size {batch}"
            raise error(RuntimeError, name, rule)
        if width != [hidden]:
            rule = f"hidden{number} has inconsistent hidden_size: expected {hidden}"
            raise error(RuntimeError, name, rule, hx=state)
    return (shape[0],)


def cell(name: str, direction: Callable, gates: int) -> Callable:
    """A cell with one state: the step of a layer, for one step."""

    def function(
        input: Tensor,
        hx: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor:
        sizes = check_cell(name, input, (hx,), w_ih, w_hh)
        return direction(input, (hx,), (w_ih, w_hh, b_ih, b_hh, None), sizes, False)[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "One step: the new state."
    return composite(cell_samples(gates, lambda h: h))(function)


def cell_samples(gates: int, states: Callable) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        weights = real(2 * gates, 3), real(2 * gates, 2)
        biases = real(2 * gates), real(2 * gates, seed=1)
        yield Sample(real(4, 3), states(real(4, 2)), *weights, *biases)
        yield Sample(real(1, 3), states(real(1, 2)), *weights)
        yield Fails(RuntimeError, real(4, 2), states(real(4, 2)), *weights)
        yield Fails(RuntimeError, real(4, 3), states(real(3, 2)), *weights)

    return samples


rnn_tanh_cell = cell("rnn_tanh_cell", rnn_direction(False), 1)
rnn_relu_cell = cell("rnn_relu_cell", rnn_direction(True), 1)
gru_cell = cell("gru_cell", gru_direction, 3)


@composite(cell_samples(4, lambda h: [h, h + 1]))
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: the new h and c."""
    sizes = check_cell("lstm_cell", input, hx, w_ih, w_hh)
    # Of one step, all outputs are the last one; they are saved for the gradient anyway, and the last need not be.
    h, (_, c) = lstm_direction(input, hx, (w_ih, w_hh, b_ih, b_hh, None), sizes, False)
    return h, c
