"""The order of dimensions: transposes and permutations, all of them views.

Read next: ops/strides.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cleargrad.core.shape import sizes_of, wrap_dim, wrap_dims
from cleargrad.core.tensor import Tensor
from cleargrad.errors import error
from cleargrad.ops.declare import composite, face, view
from cleargrad.ops.samples import Fails, Sample, real
from cleargrad.ops.views import alias, check_tensor, inverse, taking_place


def permute_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3, 4), (2, 0, 1))
    yield Sample(real(2, 3, 4), (-1, 1, 0))
    yield Sample(real(3), (0,))
    yield Sample(real(), ())
    yield Fails(RuntimeError, real(2, 3), (0, 0))
    yield Fails(RuntimeError, real(2, 3), (0,))
    yield Fails(IndexError, real(2, 3), (0, 2))


permute_dims = view(
    "permute",
    lambda x, *, dims: x.transpose(dims),
    vjp=lambda g, *, dims: permute_dims(g, dims=inverse(dims)),
    samples=permute_samples,
)
swap_dims = view(
    "transpose",
    lambda x, *, dim0, dim1: x.swapaxes(dim0, dim1),
    vjp=lambda g, *, dim0, dim1: swap_dims(g, dim0=dim0, dim1=dim1),
    samples=lambda: iter(
        [Sample(real(2, 3, 4), 0, 2), Sample(real(2, 3), -1, 0), Fails(IndexError, real(2, 3), 0, 2)]
    ),
)


@face(permute_dims, method=True)
def permute(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """The dimensions in another order."""
    check_tensor("permute", input)
    order = sizes_of(order if dims is None else (dims,))
    rank = input._form.ndim
    if len(order) != rank:
        rule = f"the number of dimensions in dims ({len(order)}) must match the input's ({rank})"
        raise error(RuntimeError, "permute", rule, input=input, dims=order)
    order = tuple(wrap_dim("permute", dim, rank) for dim in order)
    if len(set(order)) != rank:
        raise error(RuntimeError, "permute", "duplicate dims are not allowed", dims=order)
    return permute_dims(input, dims=order)


@face(swap_dims, method=True, aliases=("swapaxes", "swapdims"))
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swaps two dimensions."""
    check_tensor("transpose", input)
    rank = input._form.ndim
    if rank == 0:
        wrap_dim("transpose", dim0, 0), wrap_dim("transpose", dim1, 0)
        return alias(input)
    return swap_dims(input, dim0=wrap_dim("transpose", dim0, rank), dim1=wrap_dim("transpose", dim1, rank))


turn = view(
    "t",
    lambda x: x.T,
    vjp=lambda g: turn(g),
    samples=lambda: iter(
        [Sample(real(2, 3)), Sample(real(3)), Sample(real()), Fails(RuntimeError, real(1, 2, 3))]
    ),
)


@face(turn, method=True)
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; tensors of fewer dimensions stay as they are."""
    check_tensor("t", input)
    if input._form.ndim > 2:
        raise error(RuntimeError, "t", "t() expects a tensor with at most 2 dimensions", input=input)
    return turn(input)


@composite(
    lambda: iter([Sample(real(2, 3)), Sample(real(2, 3, 4)), Fails(RuntimeError, real(3))]), method=True
)
def adjoint(input: Tensor) -> Tensor:
    """The conjugate of the tensor with its last two dimensions swapped."""
    check_tensor("adjoint", input)
    if input._form.ndim == 1:
        raise error(RuntimeError, "adjoint", "only supported on matrices or batches of matrices", input=input)
    turned = transpose(input, -2, -1) if input._form.ndim else alias(input)
    return turned.conj() if input._form.dtype.kind == "c" else turned


def movedim_samples() -> Iterator[Sample]:
    yield Sample(real(2, 3, 4), 0, -1)
    yield Sample(real(2, 3, 4), (0, 1), (1, 2))
    yield Sample(real(), 0, 0)
    yield Fails(RuntimeError, real(2, 3), (0, 0), (0, 1))
    yield Fails(RuntimeError, real(2, 3), (0, 1), (0,))
    yield Fails(IndexError, real(2, 3), 0, 2)


@composite(movedim_samples, method=True, aliases=("moveaxis",))
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Moves dimensions to other places; the rest keep their order."""
    check_tensor("movedim", input)
    rank = input._form.ndim
    goes, there = wrap_dims("movedim", source, rank), wrap_dims("movedim", destination, rank)
    if len(goes) != len(there):
        rule = f"source ({len(goes)} dims) should contain as many dims as destination ({len(there)} dims)"
        raise error(RuntimeError, "movedim", rule)
    origin = dict(zip(there, goes, strict=True))
    rest = (dim for dim in range(rank) if dim not in goes)
    return permute(input, tuple(origin[dim] if dim in origin else next(rest) for dim in range(rank)))


Tensor.t_ = taking_place(t)
Tensor.transpose_ = Tensor.swapaxes_ = Tensor.swapdims_ = taking_place(transpose)
