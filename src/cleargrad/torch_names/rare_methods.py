"""Methods of Tensor that few programs call: facts with one answer on a CPU, old names, and sharing memory.

Read next: rare_functions.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from cleargrad.autograd.node import edge_of, strides_of
from cleargrad.core import device as devices
from cleargrad.core.dtype import OF_NUMPY
from cleargrad.core.mode import settle
from cleargrad.core.tensor import Tensor, held, wrap
from cleargrad.errors import error
from cleargrad.tensor import method

Tensor.is_ipu = Tensor.is_mtia = Tensor.is_maia = Tensor.is_vulkan = Tensor.is_sparse_csr = False
Tensor.name = None
Tensor.grad_dtype = property(lambda self: self.dtype)


def answer(name: str, value: Any) -> None:
    """Attaches a method that always gives the same answer."""
    setattr(Tensor, name, lambda self, *args, **kwargs: value)


# Conjugates and negatives are computed at once, so no tensor is one that is still to be taken.
for _name in ("is_conj", "is_neg", "is_distributed"):
    answer(_name, False)
answer("sparse_dim", 0)


# Facts -----------------------------------------------------------------------------------------------------


@method
def dense_dim(self: Tensor) -> int:
    return self._form.ndim


@method
def is_signed(self: Tensor) -> bool:
    return OF_NUMPY[self._form.dtype].is_signed


@method
def is_same_size(self: Tensor, other: Tensor) -> bool:
    return self._form.shape == other._form.shape


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both look at the same memory in the same way."""
    same = self.data_ptr() == tensor.data_ptr() and self._form.dtype == tensor._form.dtype
    return same and self._form.shape == tensor._form.shape and self.stride() == tensor.stride()


@method
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the slowest to the fastest in memory."""
    strides = strides_of(self._data)
    return tuple(sorted(range(len(strides)), key=lambda dim: -strides[dim]))


@method
def const_data_ptr(self: Tensor) -> int:
    return self.data_ptr()


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
    """The tensor itself: all tensors are dense."""
    return self if dtype is None else self.to(dtype)


Tensor.volatile = property(lambda self: _volatile())


def _volatile() -> bool:
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=3)
    return False


# Values by Python functions --------------------------------------------------------------------------------


def _mapped(name: str, self: Tensor, others: tuple[Tensor, ...], callable: Callable) -> Tensor:
    """Writes callable(element, ...) over every element."""
    if edge_of(self) is not None:
        rule = f"Can't call {name}() on Variable that requires grad."
        raise error(RuntimeError, name, rule, fix=f"use var.detach().{name}()")
    settle()
    arrays = np.broadcast_arrays(self._data, *[other._data for other in others])
    values = [callable(*elements) for elements in zip(*[array.ravel().tolist() for array in arrays])]
    self._data[...] = np.array(values, self._form.dtype).reshape(self._form.shape)
    self.bump()
    return self


@method
def apply_(self: Tensor, callable: Callable) -> Tensor:
    """Replaces every element by a Python function of it."""
    return _mapped("apply_", self, (), callable)


@method
def map_(self: Tensor, tensor: Tensor, callable: Callable) -> Tensor:
    """Replaces every element by a Python function of it and of another tensor's."""
    return _mapped("map_", self, (tensor,), callable)


@method
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    return _mapped("map2_", self, (x, y), callable)


@method
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Writes a value along the diagonal; with wrap, a tall matrix gets it again below."""
    shape = self._form.shape
    if len(shape) < 2:
        raise error(RuntimeError, "fill_diagonal_", "dimensions must larger than 1", tensor=self)
    if len(shape) > 2:
        if len(set(shape)) > 1:
            rule = "all dimensions of input must be of equal length"
            raise error(RuntimeError, "fill_diagonal_", rule, tensor=self)
        self.as_strided((shape[0],), (sum(self.stride()),), self.storage_offset()).fill_(fill_value)
        return self
    rows, columns = shape
    for start in range(0, rows if wrap else 1, columns + 1):
        self[start:].diagonal().fill_(fill_value)
    return self


@method
def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`narrow` with memory of its own."""
    return self.narrow(dim, start, length).clone()


@method
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What load_state_dict puts in this tensor's place."""
    return other if assign else self.copy_(other).detach()


@method
def resize(self: Tensor, *sizes: Any) -> Tensor:
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    return self.clone().resize_(*sizes)


@method
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
    return self.clone().resize_(tensor.shape)


# Memory ----------------------------------------------------------------------------------------------------


@method
def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor to memory that processes started later see as well."""
    from cleargrad.multiprocessing.shared import share

    return share(self)


@method
def is_shared(self: Tensor) -> bool:
    from cleargrad.multiprocessing.shared import shared_memory

    return shared_memory(self._data) is not None


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor in memory of the CPU that a GPU reads by itself: a copy, or itself."""
    if not devices.is_usable("cuda"):
        rule = "Cannot access accelerator device when none is available."
        raise error(RuntimeError, "pin_memory", rule, fix="pin only if torch.cuda.is_available()")
    if held(self) is not None:
        rule = f"cannot pin '{self.type()}': only dense CPU tensors can be pinned"
        raise error(RuntimeError, "pin_memory", rule, tensor=self)
    if self.is_pinned():
        return self
    devices.check("cuda")
    return wrap(devices.drivers["cuda"].pin(self._data))


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether a GPU reads the tensor's memory by itself."""
    driver = devices.drivers.get("cuda")
    return driver is not None and held(self) is None and driver.is_pinned(self._data)


@method
def record_stream(self: Tensor, stream: Any) -> None:
    """Memory of the tensor is not given out again before what a stream was asked for until now is done."""
    found = held(self)
    if found is None:
        raise error(RuntimeError, "record_stream", "there are no streams on a CPU")
    found.driver.keep_until(found.memory, stream)


@method
def xpu(self: Tensor, device: Any = None, **kwargs: Any) -> NoReturn:
    raise devices.unavailable(devices.device("xpu"))


# What there is not -----------------------------------------------------------------------------------------


def refuse(name: str, rule: str, kind: type[Exception] = RuntimeError, fix: str | None = None) -> None:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(kind, name, rule, fix=fix)

    method.__name__ = name
    setattr(Tensor, name, method)


for _name in (
    "to_sparse",
    "to_sparse_coo",
    "to_sparse_csr",
    "to_sparse_csc",
    "to_sparse_bsr",
    "to_sparse_bsc",
):
    refuse(_name, "cleargrad does not have sparse tensors", NotImplementedError)
for _name in ("values", "indices", "coalesce", "is_coalesced", "crow_indices", "col_indices", "sparse_mask"):
    refuse(_name, f"{_name} expected sparse tensor layout but got Strided")
refuse("to_mkldnn", "cleargrad does not have the layout of oneDNN", NotImplementedError)
refuse("reinforce", "reinforce() was removed", fix="use torch.distributions and its log_prob")
for _name, _new in {"eig": "eig", "symeig": "eigh", "solve": "solve", "lstsq": "lstsq"}.items():
    refuse(_name, "this function was removed from PyTorch", fix=f"use torch.linalg.{_new}")
