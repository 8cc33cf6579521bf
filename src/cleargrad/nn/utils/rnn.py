"""torch.nn.utils.rnn: sequences of different lengths, padded to one or packed without gaps.

A packed sequence holds the first elements of all sequences, then the second ones, and so on; sequences are
sorted by length, so every step has a prefix of them. Read next: nn/modules/rnn.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.tensor import Tensor, wrap, wrap_beside
from cleargrad.errors import error
from cleargrad.ops.creation import tensor
from cleargrad.ops.joining import stack


class PackedFields(NamedTuple):
    """What a packed sequence consists of."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


PackedFields.__name__ = "PackedSequence_"


class PackedSequence(PackedFields):
    """Sequences without padding: the rows of all steps, and how many sequences each step has."""

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:  # (data, batch_sizes) as one argument
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                rule = "Expected data to be a list or tuple of length 2"
                raise error(AssertionError, "PackedSequence", rule)
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"PackedSequence({fields})"

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The sequence with its data converted; itself when nothing changes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self.to(*args, device="cpu", **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self.to(*args, device=devices.device("cuda"), **kwargs)

    def pin_memory(self) -> PackedSequence:
        return self

    def is_pinned(self) -> bool:
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    def double(self) -> PackedSequence:
        return self.to(dtype=dtypes.float64)

    def float(self) -> PackedSequence:
        return self.to(dtype=dtypes.float32)

    def half(self) -> PackedSequence:
        return self.to(dtype=dtypes.float16)

    def long(self) -> PackedSequence:
        return self.to(dtype=dtypes.int64)

    def int(self) -> PackedSequence:
        return self.to(dtype=dtypes.int32)

    def short(self) -> PackedSequence:
        return self.to(dtype=dtypes.int16)

    def char(self) -> PackedSequence:
        return self.to(dtype=dtypes.int8)

    def byte(self) -> PackedSequence:
        return self.to(dtype=dtypes.uint8)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another."""
    return None if permutation is None else permutation.argsort()


# Padded and packed -----------------------------------------------------------------------------------------


def sizes_of(lengths: np.ndarray) -> np.ndarray:
    """How many sequences each step has, from lengths in falling order."""
    return (lengths[None, :] > np.arange(lengths[0])[:, None]).sum(1)


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | list[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs (steps, batch, ...), or (batch, steps, ...) with `batch_first`."""
    given = lengths if isinstance(lengths, Tensor) else tensor(lengths, dtype=dtypes.int64)
    x = input.transpose(0, 1) if batch_first else input
    order = None
    if not enforce_sorted:
        given, order = given.sort(descending=True)
        order = order.to(x.device)
        x = x.index_select(1, order)
    counts = given.detach().numpy().astype(np.int64)
    check_lengths(x, counts)
    sizes = sizes_of(counts)
    steps, batch = x._form.shape[:2]
    if len(sizes) * batch == counts.sum():  # all of one length
        data = x[: len(sizes)].reshape(-1, *x._form.shape[2:])
    else:
        step, row = np.nonzero(counts[None, :] > np.arange(len(sizes))[:, None])
        data = x.reshape(steps * batch, *x._form.shape[2:]).index_select(
            0, wrap_beside(step * batch + row, x)
        )
    return PackedSequence(data, wrap(sizes.astype(np.int64)), order)


def check_lengths(x: Tensor, lengths: np.ndarray) -> None:
    name = "pack_padded_sequence"
    if not x._form.size:
        raise error(RuntimeError, name, "Cannot pack empty tensors.", input=x)
    if len(lengths) != x._form.shape[1]:
        rule = f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)}"
        raise error(RuntimeError, name, rule, input=x)
    if (lengths <= 0).any():
        rule = (
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
        raise error(RuntimeError, name, rule)
    if (np.diff(lengths) > 0).any():
        rule = "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True"
        raise error(RuntimeError, name, rule, fix="pass enforce_sorted=False")
    if lengths[0] > len(x._form):
        rule = f"a length of {lengths[0]} is more than the {len(x._form)} steps there are"
        raise error(RuntimeError, name, rule, input=x)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Padded sequences, and their lengths."""
    sizes = sequence.batch_sizes.numpy()
    steps = len(sizes)
    if total_length is not None and total_length < steps:
        rule = f"Expected total_length to be at least the length of the longest sequence, {steps}"
        raise error(ValueError, "pad_packed_sequence", rule, total_length=total_length)
    steps, batch = total_length or steps, int(sizes[0])
    lengths = (sizes[None, :] > np.arange(batch)[:, None]).sum(1)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    step, row = np.nonzero(np.arange(batch)[None, :] < sizes[:, None])
    if len(step) == steps * batch:
        padded = sequence.data.reshape(steps, batch, *sequence.data._form.shape[1:])
    else:
        empty = sequence.data.new_full((steps, batch, *sequence.data._form.shape[1:]), padding_value)
        places = (wrap_beside(step, empty), wrap_beside(row, empty))
        rows = wrap_beside(starts[step] + row, empty)
        padded = empty.index_put(places, sequence.data.index_select(0, rows))
    counts = wrap(lengths.astype(np.int64))
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        counts = counts[sequence.unsorted_indices.cpu()]
    return padded.transpose(0, 1) if batch_first else padded, counts


# Lists of sequences ----------------------------------------------------------------------------------------


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences as one tensor (longest, batch, ...), filled up on one side."""
    name = "pad_sequence"
    if not isinstance(sequences, Iterable):
        rule = f"Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        raise error(RuntimeError, name, rule)
    if padding_side not in ("left", "right"):
        rule = f"Expected padding_side to be one of left or right, but got {padding_side}."
        raise error(RuntimeError, name, rule)
    given = list(sequences.unbind(0) if isinstance(sequences, Tensor) else sequences)
    if not given:
        raise error(RuntimeError, name, "received an empty list of sequences")
    longest = max(len(sequence) for sequence in given)
    tail = given[0]._form.shape[1:]
    padded = []
    for position, sequence in enumerate(given):
        if sequence._form.shape[1:] != tail:
            rule = f"all but the first dimension must be {tuple(tail)}"
            raise error(RuntimeError, name, rule, position=position, sequence=sequence)
        missing = longest - len(sequence)
        room = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(pad_first(sequence, room, padding_value))
    return stack(padded, 0 if batch_first else 1)


def pad_first(x: Tensor, room: tuple[int, int], value: float) -> Tensor:
    """Entries before and behind the first dimension."""
    if room == (0, 0):
        return x
    from cleargrad.ops.padding import pad

    return pad(x, (*[0, 0] * (x._form.ndim - 1), *room), value=value)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences without their padding."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows.unbind(0), lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs a list of sequences."""
    lengths = tensor([len(sequence) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list of sequences again."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
