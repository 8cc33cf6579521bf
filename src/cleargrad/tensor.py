"""Tensor as users see it: its facts, its gradient, its operators.

The record itself is in core/tensor.py; methods of ops are attached from their declarations by `attach`, so
that an op needs no second entry. Conversions to other libraries are in interop.py. Read next: interop.py.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from cleargrad import printing
from cleargrad.autograd import api
from cleargrad.autograd.node import (
    AccumulateGrad,
    Node,
    RemovableHandle,
    TensorHook,
    add_hook,
    address,
    edge_of,
    extra_of,
    is_leaf,
    make_leaf,
    split_edge,
    strides_of,
)
from cleargrad.autograd.walk import leads_elsewhere, walk_plainly
from cleargrad.core import device as devices
from cleargrad.core import dtype as dtypes
from cleargrad.core.device import on_host
from cleargrad.core.mode import mode, settle, structure
from cleargrad.core.shape import Size, wrap_dim
from cleargrad.core.tensor import Tensor, cell_of, held, place_of, put, room_of, value_in, wrap_any
from cleargrad.core.watch import watch
from cleargrad.errors import error
from cleargrad.ops import (
    comparison,
    complex_numbers,
    conversion,
    creation,
    dimensions,
    elementary,
    indexing,
    matmul,
    pointwise,
    strides,
)
from cleargrad.ops.argument_names import method_of, writing_method
from cleargrad.ops.conversion import contiguous_format, is_laid_out
from cleargrad.ops.op import FACES


def method(function: Callable) -> Callable:
    """Attaches a function to Tensor under its own name."""
    setattr(Tensor, function.__name__, function)
    return function


def attribute(function: Callable) -> Callable:
    """Attaches a function to Tensor as a read-only property."""
    setattr(Tensor, function.__name__, property(function))
    return function


def attach() -> None:
    """Gives Tensor the methods that ops declare."""
    for face in FACES:
        if face.method:
            setattr(Tensor, face.name, method_of(face.function))
        if face.inplace is not None:
            setattr(Tensor, face.name + "_", writing_method(face.inplace, face.name + "_"))


# Facts -----------------------------------------------------------------------------------------------------


@method
def size(self: Tensor, dim: int | None = None) -> Size | int:
    shape = self._form.shape
    return Size(shape) if dim is None else shape[wrap_dim("size", dim, len(shape))]


@method
def dim(self: Tensor) -> int:
    return self._form.ndim


@method
def numel(self: Tensor) -> int:
    return self._form.size


@method
def stride(self: Tensor, dim: int | None = None) -> tuple[int, ...] | int:
    strides = strides_of(self._form)
    return strides if dim is None else strides[wrap_dim("stride", dim, len(strides))]


@method
def data_ptr(self: Tensor) -> int:
    return address(self._data) if self._form.size and held(self) is None else 0


@method
def element_size(self: Tensor) -> int:
    return self._form.itemsize


@method
def is_contiguous(self: Tensor, memory_format: Any = contiguous_format) -> bool:
    return is_laid_out(self._form, memory_format)


@method
def is_floating_point(self: Tensor) -> bool:
    return self.dtype.is_floating_point


@method
def is_complex(self: Tensor) -> bool:
    return self.dtype.is_complex


@method
def is_inference(self: Tensor) -> bool:
    return self._inference


@method
def get_device(self: Tensor) -> int:
    place = place_of(self)
    return -1 if place.type in ("cpu", "meta") else place.index or 0


@attribute
def device(self: Tensor) -> devices.device:
    return place_of(self)


@attribute
def nbytes(self: Tensor) -> int:
    return self._form.size * self._form.itemsize


@attribute
def itemsize(self: Tensor) -> int:
    return self._form.itemsize


@attribute
def T(self: Tensor) -> Tensor:
    if self._form.ndim > 2:
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it "
            "will throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
            stacklevel=2,
        )
    elif self._form.ndim == 0:
        message = "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases."
        warnings.warn(message, stacklevel=2)
    return dimensions.permute(self, *range(self._form.ndim - 1, -1, -1))


@attribute
def mT(self: Tensor) -> Tensor:
    if self._form.ndim == 1:
        raise error(
            RuntimeError, "mT", "tensor.mT is only supported on matrices or batches of matrices", input=self
        )
    return dimensions.transpose(self, -2, -1) if self._form.ndim else self


@attribute
def H(self: Tensor) -> Tensor:
    if self._form.ndim not in (0, 2):
        raise error(
            RuntimeError, "H", "tensor.H is only supported on matrices", input=self, fix="use .mH for batches"
        )
    return dimensions.adjoint(self)


@attribute
def mH(self: Tensor) -> Tensor:
    return dimensions.adjoint(self)


@attribute
def _version(self: Tensor) -> int:
    if self._inference:
        raise error(RuntimeError, "_version", "Inference tensors do not track version counter.")
    return 0 if self._ver is None else self._ver[1]


Tensor.nelement = Tensor.numel
Tensor.ndimension = Tensor.dim
Tensor.is_sparse = Tensor.is_quantized = False
for _type in ("cpu", "cuda", "mps", "xpu", "meta"):
    setattr(Tensor, f"is_{_type}", property(lambda self, type=_type: place_of(self).type == type))
Tensor.is_nested = Tensor.is_xla = Tensor.is_mkldnn = False

# Gradients -------------------------------------------------------------------------------------------------


def _get_requires_grad(self: Tensor) -> bool:
    return edge_of(self) is not None


def _set_requires_grad(self: Tensor, wanted: bool) -> None:
    if wanted == (edge_of(self) is not None):
        return
    structure.version += 1
    if mode.waiter is not None:
        mode.waiter.note_history()
    if not is_leaf(self):
        rule = "you can only change requires_grad flags of leaf variables"
        raise error(RuntimeError, "requires_grad", rule, fix="use .detach() for a value without gradient")
    if not wanted:
        self._edge = None
        return
    if self._inference and not mode.inference:
        rule = "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        raise error(RuntimeError, "requires_grad", rule, fix="use a clone() made outside inference_mode")
    if self.dtype.category < dtypes.FLOAT:
        rule = "only Tensors of floating point and complex dtype can require gradients"
        raise error(RuntimeError, "requires_grad", rule, tensor=self)
    make_leaf(self)


Tensor.requires_grad = property(_get_requires_grad, _set_requires_grad)


@method
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Turns recording of gradients for this leaf on or off."""
    _set_requires_grad(self, requires_grad)
    return self


def keeps_grad(node: Node, number: int) -> bool:
    """Whether retain_grad was asked for an output of a node."""
    return node.extra is not None and any(keeper.number == number for keeper in node.extra.keepers.values())


def _get_grad(self: Tensor) -> Tensor | None:
    if self._grad is None and type(self._edge) not in (AccumulateGrad, type(None)):
        node, number = split_edge(edge_of(self))
        if not keeps_grad(node, number):
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
                "attribute won't be populated during autograd.backward(). If you indeed want the .grad "
                "field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. "
                "If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead.",
                UserWarning,
                stacklevel=2,
            )
    return self._grad


def _set_grad(self: Tensor, grad: Tensor | None) -> None:
    if grad is None:
        self._grad = None
        return
    if not isinstance(grad, Tensor):
        raise error(
            TypeError, "grad", f"assigned grad expected to be a Tensor or None but got {type(grad).__name__}"
        )
    if grad is self:
        raise error(RuntimeError, "grad", "can't assign Variable as its own grad")
    if grad._form.shape != self._form.shape:
        raise error(
            RuntimeError, "grad", "assigned grad has data of a different size", tensor=self, grad=grad
        )
    if grad._form.dtype != self._form.dtype:
        raise error(
            RuntimeError, "grad", "assigned grad has data of a different type", tensor=self, grad=grad
        )
    self._grad = grad


def _delete_grad(self: Tensor) -> None:
    _set_grad(self, None)


Tensor.grad = property(_get_grad, _set_grad, _delete_grad)


@attribute
def grad_fn(self: Tensor) -> Any:
    edge = edge_of(self)
    return None if edge is None or type(edge) is AccumulateGrad else split_edge(edge)[0]


@attribute
def output_nr(self: Tensor) -> int:
    edge = edge_of(self)
    return 0 if edge is None else split_edge(edge)[1]


Tensor.is_leaf = property(is_leaf)


@method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Adds the gradient of this tensor to `.grad` of the leaves it was computed from."""
    plain = gradient is None and inputs is None and not create_graph and watch.observer is None
    waiter = mode.waiter
    plain = plain and ((waiter is not None and waiter.run.is_waiting(self)) or not leads_elsewhere(self))
    if plain and not mode.anomaly and mode.recorder is None and mode.observer is None:
        if mode.waiter is not None:
            mode.waiter.backward(self, bool(retain_graph))
        else:
            walk_plainly((self,), (api.start_gradient(self, None),), bool(retain_graph))
    else:
        api.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@method
def detach(self: Tensor) -> Tensor:
    """The same memory outside the graph."""
    alias = another(self)
    alias._ver = cell_of(self)
    return alias


def another(self: Tensor) -> Tensor:
    """A tensor on the same memory, outside of the graph."""
    waiter = mode.waiter
    alias = None if waiter is None else waiter.alias(self)
    if alias is None:
        alias = wrap_any(value_in(self))
    room = room_of(self)
    room.add(alias)
    if self._base is not None and room.whole is None:
        whole = None if waiter is None else waiter.alias(self._base)
        room.whole = wrap_any(value_in(self._base)) if whole is None else whole
    if mode.recorder is not None:
        mode.recorder.alias(self, alias)
    return alias


@method
def detach_(self: Tensor) -> Tensor:
    """Takes this tensor out of the graph."""
    if self._base is not None:
        rule = "views cannot be detached in place"
        raise error(RuntimeError, "detach_", rule, fix="use detach() instead of detach_()")
    if mode.waiter is not None:
        mode.waiter.note_history()
    self._edge = None
    return self


def _get_data(self: Tensor) -> Tensor:
    alias = another(self)
    alias._ver = [0, 0, None, room_of(self)]  # of its own: writes to .data are invisible to autograd
    return alias


def _set_data(self: Tensor, value: Tensor) -> None:
    if not isinstance(value, Tensor):
        raise error(TypeError, "data", f"expected a Tensor, got {type(value).__name__}")
    if mode.recorder is not None and value_in(value) is not value_in(self):
        mode.recorder.refuse("data")
    settle()
    room_of(self).known = room_of(value).known = False  # views of the old memory stay with it
    put(self, value_in(value))
    edge = self._edge
    if type(edge) is AccumulateGrad:
        edge.shape, edge.dtype = value._form.shape, value._form.dtype


Tensor.data = property(_get_data, _set_data)


@method
def register_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """`hook(grad)` sees this tensor's gradient in every backward, and may return another."""
    edge = edge_of(self)
    if edge is None:
        rule = "cannot register a hook on a tensor that doesn't require gradient"
        raise error(RuntimeError, "register_hook", rule, tensor=self)
    node, number = split_edge(edge)
    return add_hook(extra_of(node).prehooks, TensorHook(hook, number))


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable) -> RemovableHandle:
    """`hook(tensor)` runs after a gradient was added to this leaf's `.grad`."""
    edge = edge_of(self)
    if edge is None:
        rule = "cannot register a hook on a tensor that doesn't require gradient"
        raise error(RuntimeError, "register_post_accumulate_grad_hook", rule, tensor=self)
    if type(edge) is not AccumulateGrad:
        rule = "post accumulate grad hooks cannot be registered on non-leaf tensors"
        raise error(RuntimeError, "register_post_accumulate_grad_hook", rule, tensor=self)
    return add_hook(extra_of(edge).accumulated, hook)


@method
def retain_grad(self: Tensor) -> None:
    """Keeps this non-leaf tensor's gradient in `.grad`, as if it were a leaf."""
    edge = edge_of(self)
    if edge is None:
        rule = "can't retain_grad on Tensor that has requires_grad=False"
        raise error(RuntimeError, "retain_grad", rule, tensor=self)
    if type(edge) is AccumulateGrad:
        return
    node, number = split_edge(edge)
    if keeps_grad(node, number):
        return
    owner = weakref.ref(self)

    def keep(grad: Tensor) -> None:
        tensor = owner()
        if tensor is None:
            return
        if tensor._grad is None:
            tensor._grad = grad.clone() if not mode.grad else grad
        else:
            tensor._grad = tensor._grad + grad

    add_hook(extra_of(node).keepers, TensorHook(keep, number))


@attribute
def retains_grad(self: Tensor) -> bool:
    edge = edge_of(self)
    if edge is None or type(edge) is AccumulateGrad:
        return False
    node, number = split_edge(edge)
    return keeps_grad(node, number)


# Writes and operators --------------------------------------------------------------------------------------

Tensor.copy_ = conversion.copy_
Tensor.fill_ = conversion.fill_
Tensor.zero_ = conversion.zero_
Tensor.window = strides.window
Tensor.__getitem__ = indexing.getitem
Tensor.__setitem__ = indexing.setitem
Tensor.__matmul__ = matmul.matmul.__wrapped__
Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]


def swapped(door: Callable) -> Callable:
    """The reflected form of an operator: `2 - x` calls it with x first."""

    def reflected(self: Tensor, other: Any) -> Tensor:
        try:
            return door(other, self)
        except TypeError:
            return NotImplemented

    return reflected


def left_to_python(door: Callable) -> Callable:
    """An operator that leaves what it cannot take to Python: `x == "a"` is unequal, `[0] * x` repeats the list."""

    def operator(self: Tensor, other: Any) -> Any:
        try:
            return door(self, other)
        except TypeError:
            return NotImplemented

    return operator


# Operators call the doors of their ops directly; what they cannot take becomes Python's own TypeError.
Tensor.__rmatmul__ = swapped(matmul.matmul.__wrapped__)
OPERATORS: dict[str, Callable] = {
    "add": pointwise.add_op,
    "sub": pointwise.sub_op,
    "mul": pointwise.mul,
    "truediv": pointwise.true_divide,
    "floordiv": pointwise.divide_floor,
    "mod": pointwise.remainder,
    "and": comparison.bitwise_and,
    "or": comparison.bitwise_or,
    "xor": comparison.bitwise_xor,
    "lshift": comparison.bitwise_left_shift,
    "rshift": comparison.bitwise_right_shift,
}
for _name, _door in OPERATORS.items():
    setattr(Tensor, f"__{_name}__", _door)
    # As in PyTorch, `2 * x` is x times 2: x is the first operand that the graph shows.
    setattr(Tensor, f"__r{_name}__", (left_to_python if _name in ("add", "mul") else swapped)(_door))
    setattr(Tensor, f"__i{_name}__", _door.inplace)
for _name in ("lt", "le", "gt", "ge"):
    setattr(Tensor, f"__{_name}__", getattr(comparison, _name))
Tensor.__eq__ = left_to_python(comparison.eq)  # type: ignore[method-assign]
Tensor.__ne__ = left_to_python(comparison.ne)  # type: ignore[method-assign]
Tensor.__pow__ = elementary.pow.__wrapped__
Tensor.__rpow__ = swapped(elementary.power)
Tensor.__ipow__ = elementary.power.inplace
Tensor.__rdiv__ = Tensor.__rtruediv__
Tensor.__neg__ = pointwise.neg
Tensor.__pos__ = pointwise.positive
Tensor.__abs__ = elementary.absolute
Tensor.__invert__ = comparison.invert
Tensor.__hash__ = object.__hash__  # type: ignore[method-assign]
Tensor.real = property(complex_numbers.real_)
Tensor.imag = property(complex_numbers.imag)


@method
def __len__(self: Tensor) -> int:
    if not self._form.ndim:
        raise error(TypeError, "len", "len() of a 0-d tensor")
    return self._form.shape[0]


@method
def __iter__(self: Tensor) -> Iterator[Tensor]:
    if not self._form.ndim:
        raise error(TypeError, "iter", "iteration over a 0-d tensor")
    return iter(self.unbind(0))


@method
def __repr__(self: Tensor, *, tensor_contents: Any = None) -> str:
    return text_of(self, "tensor" if type(self) is Tensor else type(self).__name__)


def text_of(self: Tensor, class_name: str = "tensor") -> str:
    """The text of a tensor under some name."""
    if mode.recorder is not None:
        mode.recorder.refuse("print")
    edge, place = edge_of(self), held(self)
    leaf = edge is None or type(edge) is AccumulateGrad
    has_values = place is None or place.driver.has_values
    return printing.format_tensor(
        on_host(value_in(self)) if has_values else self._form,
        dtype_name=self.dtype.name,
        requires_grad=edge is not None,
        grad_fn_name=None if leaf else split_edge(edge)[0].name(),
        default_dtype_name=dtypes.get_default_dtype().name,
        class_name=class_name,
        device="cpu" if place is None else str(place.place),
        has_values=has_values,
    )


@method
def _repr_html_(self: Tensor) -> str | None:
    """What a notebook shows: facts above the numbers; a single number says enough by itself."""
    from cleargrad import notebook

    text = repr(self)
    if not self._form.ndim:
        return None
    gradient = "needs a gradient" if self.requires_grad else ""
    place = held(self)
    if place is not None and not place.driver.has_values:
        return None
    return notebook.tensor(on_host(value_in(self)), text, self.dtype.name, gradient)


@method
def __format__(self: Tensor, format_spec: str) -> str:
    if mode.recorder is not None:
        mode.recorder.refuse("format")
    if held(self) is not None:
        return format(repr(self) if self.is_meta else self.cpu(), format_spec)
    return printing.format_with_spec(
        self._data, format_spec, text=lambda: repr(self), class_name=type(self).__name__
    )


def _new(make: Callable) -> Callable:
    """`x.new_zeros(size)`: a factory with x's dtype, on x's device."""

    def new_like(
        self: Tensor, *args: Any, dtype: Any = None, size: Any = None, device: Any = None, **kwargs: Any
    ) -> Tensor:
        args = args if size is None else (size, *args)
        place = place_of(self) if device is None else device
        return make(*args, dtype=dtype or self.dtype, device=place, **kwargs)

    return new_like


for _name in ("zeros", "ones", "empty", "full", "tensor"):
    setattr(Tensor, f"new_{_name}", _new(creation.FUNCTIONS[_name]))
