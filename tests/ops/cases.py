"""What the op matrix is generated from: every public function and every op, with their samples.

There is no list of ops here. A case is a face (compared with PyTorch) or an op without one (an adjoint
kernel, say, tested through its door).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import cleargrad as cg
from cleargrad.core import dtype as dtypes
from cleargrad.ops.op import FACES, NO_GRAD, OPS, Face, Op
from cleargrad.ops.samples import Fails, Sample


@dataclass(frozen=True)
class Case:
    """A callable under test, its samples, and PyTorch's counterpart when it has one."""

    name: str
    function: Callable
    samples: Callable
    reference: Callable | None
    inplace: Callable | None
    op: Op | None
    differentiable: bool

    def __repr__(self) -> str:
        return self.name

    def good(self) -> list[Sample]:
        return [sample for sample in self.samples() if not isinstance(sample, Fails)]

    def bad(self) -> list[Fails]:
        return [sample for sample in self.samples() if isinstance(sample, Fails)]


def cases() -> list[Case]:
    found: dict[str, Case] = {}
    with_face = set()
    for face in FACES:
        space = face.spaces[0] if face.spaces else "Tensor"
        name = f"{space}.{face.name}".lstrip(".")
        with_face.add(face.op)
        found[name] = Case(
            name,
            face.function,
            face.samples,
            reference_of(face),
            face.inplace,
            face.op,
            face.vjp is not NO_GRAD,
        )
    for op in OPS.values():
        if op not in with_face:
            found[f"op:{op.name}"] = Case(
                f"op:{op.name}", door_of(op), op.samples, None, None, op, op.vjp is not NO_GRAD
            )
    return list(found.values())


def door_of(op: Op) -> Callable:
    from cleargrad.ops.apply import call

    return lambda *operands, **attrs: call(op, operands, attrs)


def reference_of(face: Face) -> Callable | None:
    if face.reference is not None:
        return face.reference(torch)
    for space in face.spaces:
        place: Any = torch
        for part in filter(None, space.split(".")):
            place = getattr(place, part)
        found = getattr(place, face.name, None)
        if found is not None:
            return found
    return getattr(torch.Tensor, face.name, None)


# Arguments -------------------------------------------------------------------------------------------------


def to_ours(value: Any, kind: dtypes.dtype | None = None, grad: bool = False, layout: str = "C") -> Any:
    """A sample's argument for us: arrays become tensors, floats of the wanted dtype."""
    if isinstance(value, np.ndarray):
        array = cast(value, kind)
        tensor = cg.from_numpy(spread(array) if layout == "gaps" else array.copy())
        if grad and tensor.is_floating_point():
            tensor.requires_grad_(True)
        return tensor
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(to_ours(item, kind, grad, layout) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(to_ours(item, kind, grad, layout) for item in value)
    return value


def to_torch(value: Any, kind: dtypes.dtype | None = None, grad: bool = False) -> Any:
    if isinstance(value, np.ndarray):
        array = cast(value, kind)
        if kind is dtypes.bfloat16 and value.dtype == np.float64:
            tensor = torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
        else:
            tensor = torch.from_numpy(array.copy())
        if grad and tensor.is_floating_point():
            tensor.requires_grad_(True)
        return tensor
    if isinstance(value, dtypes.dtype):
        return getattr(torch, value.name)
    if isinstance(value, (list, tuple)):
        return type(value)(to_torch(item, kind, grad) for item in value)
    return value


def cast(array: np.ndarray, kind: dtypes.dtype | None) -> np.ndarray:
    return array if kind is None or array.dtype != np.float64 else array.astype(kind.numpy)


def spread(array: np.ndarray) -> np.ndarray:
    """The same values with gaps between them in memory, the last two dimensions swapped."""
    if not array.ndim:
        return array.copy()
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    view = wide[..., ::2]
    if array.ndim > 1:
        wide = np.zeros((*array.shape[:-2], array.shape[-1], 2 * array.shape[-2]), array.dtype)
        view = wide[..., ::2].swapaxes(-1, -2)
    view[...] = array
    return view


def call(function: Callable, sample: Sample, convert: Callable, **options: Any) -> tuple[Any, list]:
    """Calls a function on a converted sample; also gives the tensors it got, in order."""
    args = [convert(value, **options) for value in sample.args]
    kwargs = {name: convert(value, **options) for name, value in sample.kwargs.items()}
    return function(*args, **kwargs), list(tensors_in([args, list(kwargs.values())]))


def tensors_in(value: Any) -> Iterator[Any]:
    if isinstance(value, (cg.Tensor, torch.Tensor)):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


# Comparing -------------------------------------------------------------------------------------------------

TOLERANCE = {"float64": 1e-9, "float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2, "complex128": 1e-9}


def same(ours: Any, theirs: Any, what: str, *, loose: float = 1.0) -> None:
    """Equal shape and dtype, and values to rounding."""
    left, right = list(tensors_in(ours)), list(tensors_in(theirs))
    assert len(left) == len(right), f"{what}: {len(left)} tensors, PyTorch gives {len(right)}"
    for a, b in zip(left, right, strict=True):
        assert str(a.dtype) == str(b.dtype), f"{what}: dtype {a.dtype}, PyTorch gives {b.dtype}"
        assert tuple(a.shape) == tuple(b.shape), (
            f"{what}: shape {tuple(a.shape)}, PyTorch gives {tuple(b.shape)}"
        )
        close(numbers(a), numbers(b), a.dtype.name, what, loose)
    if not left and not isinstance(ours, (list, tuple)):
        assert ours == theirs or ours is theirs, f"{what}: {ours!r}, PyTorch gives {theirs!r}"


def numbers(tensor: Any) -> np.ndarray:
    tensor = tensor.detach().resolve_conj()
    if str(tensor.dtype).endswith("bfloat16"):
        tensor = tensor.float()
    return tensor.numpy()


def close(a: np.ndarray, b: np.ndarray, dtype: str, what: str, loose: float = 1.0) -> None:
    if a.dtype.kind not in "fc":
        assert np.array_equal(a, b), f"{what}: {a} differs from {b}"
        return
    tolerance = loose * TOLERANCE.get(dtype, 3e-5)
    fits = np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    assert fits, f"{what}: largest difference {np.nanmax(np.abs(a - b))}\n{a}\n{b}"
