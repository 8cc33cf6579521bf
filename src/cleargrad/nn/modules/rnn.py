"""Recurrent networks: RNN, LSTM and GRU over whole sequences, and their cells for single steps.

Read next: nn/modules/attention.py.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from cleargrad.core.mode import mode as current
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.nn import init
from cleargrad.nn.module import Module
from cleargrad.nn.parameter import Parameter
from cleargrad.nn.utils.rnn import PackedSequence
from cleargrad.ops import recurrent_networks as networks
from cleargrad.ops.creation import empty, zeros

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
NETWORKS: dict[str, Callable] = {
    "LSTM": networks.lstm,
    "GRU": networks.gru,
    "RNN_TANH": networks.rnn_tanh,
    "RNN_RELU": networks.rnn_relu,
}


def permuted(state: Tensor, order: Tensor | None) -> Tensor:
    """A state (layers, batch, width) with its sequences in another order."""
    return state if order is None else state.index_select(1, order)


def check_number(name: str, value: Any) -> None:
    if not isinstance(value, int):
        raise error(TypeError, "RNN", f"{name} should be of type int, got: {type(value).__name__}")
    if value <= 0:
        raise error(ValueError, "RNN", f"{name} must be greater than zero", given=value)


def check_settings(mode: str, dropout: Any, batch_first: Any, proj_size: int, hidden_size: int) -> None:
    if not isinstance(batch_first, bool):
        rule = f"batch_first should be of type bool, got: {type(batch_first).__name__}"
        raise error(TypeError, "RNN", rule)
    if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
        rule = "dropout should be a number in range [0, 1]: the probability of an element being zeroed"
        raise error(ValueError, "RNN", rule)
    if mode not in GATES:
        raise error(ValueError, "RNN", f"Unrecognized RNN mode: {mode}")
    if proj_size < 0:
        rule = "proj_size should be a positive integer or zero to disable projections"
        raise error(ValueError, "RNN", rule)
    if proj_size >= hidden_size:
        raise error(ValueError, "RNN", "proj_size has to be smaller than hidden_size")


class RNNBase(Module):
    """What RNN, LSTM and GRU share: weights by layer and direction, checks, padded and packed inputs."""

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias",
        "batch_first", "dropout", "bidirectional", "proj_size",
    ]  # fmt: skip
    __jit_unused_properties__ = ["all_weights"]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        check_number("hidden_size", hidden_size)
        check_number("input_size", input_size)
        check_number("num_layers", num_layers)
        check_settings(mode, dropout, batch_first, proj_size, hidden_size)
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        self._make_weights(device, dtype)
        self.reset_parameters()

    @property
    def _ways(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _width(self) -> int:
        """The width of the output of one direction."""
        return self.proj_size or self.hidden_size

    def _make_weights(self, device: Any, dtype: Any) -> None:
        gates = GATES[self.mode] * self.hidden_size
        for layer in range(self.num_layers):
            below = self.input_size if layer == 0 else self._width * self._ways
            shapes: dict[str, tuple[int, ...]] = {
                "weight_ih": (gates, below),
                "weight_hh": (gates, self._width),
            }
            if self.bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if self.proj_size:
                shapes["weight_hr"] = (self.proj_size, self.hidden_size)
            for suffix in ("", "_reverse")[: self._ways]:
                names = {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}
                for name, shape in names.items():
                    setattr(self, name, Parameter(empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(list(names))

    def reset_parameters(self) -> None:
        """Draws all weights from ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights by layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def flatten_parameters(self) -> None:
        """Nothing to do: kernels take weights wherever they lie."""

    # Checks ------------------------------------------------------------------------------------------------

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Input must have the layer's width and dtype."""
        kind = self.get_parameter("weight_ih_l0").dtype if "weight_ih_l0" in self._parameters else None
        if kind is not None and input.dtype is not kind and current.autocast is None:
            rule = f"RNN input dtype ({input.dtype}) does not match weight dtype ({kind})"
            fix = f"convert input: input.to({kind}), or convert model: model.to({input.dtype})"
            raise error(ValueError, self._get_name(), rule, fix=fix)
        rank = 2 if batch_sizes is not None else 3
        if input.dim() != rank:
            raise error(RuntimeError, self._get_name(), f"input must have {rank} dimensions", input=input)
        if input.size(-1) != self.input_size:
            rule = f"input.size(-1) must be equal to input_size. Expected {self.input_size}"
            raise error(RuntimeError, self._get_name(), rule, input=input)

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers · directions, batch, width) of h."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * self._ways, batch, self._width

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """A state must have the expected shape."""
        if tuple(hx.size()) != expected_hidden_size:
            rule = msg.format(expected_hidden_size, list(hx.size()))
            raise error(RuntimeError, self._get_name(), rule)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """What forward was given must fit together."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States with their sequences in another order."""
        return permuted(hx, permutation)

    # Forward -----------------------------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> tuple:
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        name = self._get_name()
        if input.dim() not in (2, 3):
            raise error(
                ValueError, name, f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        batched = input.dim() == 3
        if hx is not None:
            self._check_ranks(hx, batched)
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
            hx = None if hx is None else self._each(hx, lambda state: state.unsqueeze(1))
        if hx is None:
            hx = self._zeros(input, None)
        self.check_forward_args(input, hx, None)
        output, *last = NETWORKS[self.mode](input, hx, *self._settings(), self.batch_first)
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            last = [state.squeeze(1) for state in last]
        return output, self._joined(last)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple:
        data, batch_sizes, order, back = input
        hx = self._zeros(data, batch_sizes) if hx is None else self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, batch_sizes)
        output, *last = NETWORKS[self.mode](data, batch_sizes, hx, *self._settings())
        packed = PackedSequence(output, batch_sizes, order, back)
        return packed, self._joined([permuted(state, back) for state in last])

    def _settings(self) -> tuple:
        return (
            self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional,
        )  # fmt: skip

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        return zeros(
            self.get_expected_hidden_size(input, batch_sizes), dtype=input.dtype, device=input.device
        )

    def _each(self, hx: Any, function: Callable[[Tensor], Tensor]) -> Any:
        return function(hx)

    def _joined(self, last: list[Tensor]) -> Any:
        return last[0]

    def _check_ranks(self, hx: Any, batched: bool) -> None:
        words, rank = ("batched 3-D", 3) if batched else ("unbatched 2-D", 2)
        if hx.dim() != rank:
            rule = f"For {words} input, hx should also be {rank}-D but got {hx.dim()}-D tensor"
            raise error(RuntimeError, self._get_name(), rule)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        defaults = {
            "proj_size": 0, "num_layers": 1, "bias": True,
            "batch_first": False, "dropout": 0, "bidirectional": False,
        }  # fmt: skip
        for name, default in defaults.items():
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


class RNN(RNNBase):
    """h ← tanh(W x + b + V h + c), or with relu; layer upon layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse_projection(kwargs, args)
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if self.nonlinearity not in modes:
            rule = f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'."
            raise error(ValueError, "RNN", rule)
        super().__init__(modes[self.nonlinearity], *args, **kwargs)


def refuse_projection(kwargs: dict, args: tuple) -> None:
    if "proj_size" in kwargs:
        rule = "proj_size argument is only supported for LSTM, not RNN or GRU"
        raise error(ValueError, "RNN", rule)


class GRU(RNNBase):
    """Gated recurrent units, layer upon layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse_projection(kwargs, args)
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory, layer upon layer; states are pairs (h, c)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """(layers · directions, batch, width) of c."""
        layers, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, batch, self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], sizes, "Expected hidden[0] size {}, got {}")
        sizes = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], sizes, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        return permuted(hx[0], permutation), permuted(hx[1], permutation)

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        h = super()._zeros(input, batch_sizes)
        size = self.get_expected_cell_size(input, batch_sizes)
        return h, zeros(size, dtype=input.dtype, device=input.device)

    def _each(self, hx: Any, function: Callable[[Tensor], Tensor]) -> Any:
        return function(hx[0]), function(hx[1])

    def _joined(self, last: list[Tensor]) -> Any:
        return tuple(last)

    def _check_ranks(self, hx: Any, batched: bool) -> None:
        words, rank = ("batched 3-D", 3) if batched else ("unbatched 2-D", 2)
        if any(state.dim() != rank for state in hx):
            ranks = f"({hx[0].dim()}-D, {hx[1].dim()}-D)"
            rule = f"For {words} input, hx and cx should also be {rank}-D but got {ranks} tensors"
            raise error(RuntimeError, self._get_name(), rule)


# Cells -----------------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """What the cells share: two weights, two biases, and inputs with or without a batch."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            made = Parameter(empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all weights from ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, cell: Callable, input: Tensor, states: list) -> Any:
        """One step, whether or not input and states have a batch."""
        self._check_rank(input, "input")
        for number, state in enumerate(states):
            if state is not None:
                self._check_rank(state, f"hx[{number}]" if len(states) > 1 else "hidden")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        if states[0] is None:
            states = [zeros((x.size(0), self.hidden_size), dtype=x.dtype, device=x.device)] * len(states)
        elif not batched:
            states = [state.unsqueeze(0) for state in states]
        hx = states if len(states) > 1 else states[0]
        result = cell(x, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if batched:
            return result
        return tuple(part.squeeze(0) for part in result) if len(states) > 1 else result.squeeze(0)

    def _check_rank(self, x: Tensor, what: str) -> None:
        if x.dim() not in (1, 2):
            name = self._get_name()
            raise error(ValueError, name, f"{name}: Expected {what} to be 1D or 2D, got {x.dim()}D instead")

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of an RNN."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        cells = {"tanh": networks.rnn_tanh_cell, "relu": networks.rnn_relu_cell}
        if self.nonlinearity not in cells:
            raise error(RuntimeError, "RNNCell", f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(cells[self.nonlinearity], input, [hx])


class LSTMCell(RNNCellBase):
    """One step of an LSTM: the new (h, c)."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._step(networks.lstm_cell, input, [None, None] if hx is None else list(hx))


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(networks.gru_cell, input, [hx])
