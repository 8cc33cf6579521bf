"""The constructors of ops. Each fills most rules of the record from one fact, so that a declaration is short.

  elementwise  a scalar formula; broadcasting, promotion, vectorised run and lowering follow
  reduction    a formula that joins two elements; axes, keepdim and lowering follow
  view         an array method that shares memory
  fused        a function of other ops with a faster kernel and a gradient of its own
  opaque       a kernel the compiler cannot look into; its spec is written out
  composite    a function of other ops, with PyTorch's signature
  face         PyTorch's signature for an op whose own signature is stricter

Positional parameters of `run` are operands, keyword-only ones are attributes. Read next:
ops/doors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleargrad.core import dtype as dtypes
from cleargrad.core.dtype import NARROW, OF_NUMPY
from cleargrad.core.mode import mode
from cleargrad.core.shape import Spec, broadcast, reduced
from cleargrad.core.tensor import Tensor, wrap
from cleargrad.devices.cpu.native import quickened
from cleargrad.errors import error
from cleargrad.expr import expr, numpy_reading
from cleargrad.expr.expr import parameters
from cleargrad.ops import op as registry
from cleargrad.ops.apply import NUMBERS, checked, open_door
from cleargrad.ops.argument_names import (
    by_either_name,
    call_again,
    pytorch_names,
    scales_by_name,
    standing_for,
)
from cleargrad.ops.autocast import casting, uncast
from cleargrad.ops.by_parts import by_parts
from cleargrad.ops.doors import F32, F64, binary_door, unary_door, writing_door
from cleargrad.ops.inplace import inplace_form, write_out
from cleargrad.ops.op import NO_GRAD, OPAQUE, PARTS, Face, Op, node_class, register

ndarray = np.ndarray

# Elementwise -----------------------------------------------------------------------------------------------

ANY = (dtypes.BOOL, dtypes.INTEGER, dtypes.FLOAT, dtypes.COMPLEX)
REAL = (dtypes.BOOL, dtypes.INTEGER, dtypes.FLOAT)
NUMERIC = (dtypes.INTEGER, dtypes.FLOAT, dtypes.COMPLEX)
INTEGRAL = (dtypes.BOOL, dtypes.INTEGER)


def elementwise(
    name: str,
    formula: Callable,
    *,
    vjp: Any,
    samples: Callable,
    result: str = "same",
    accepts: tuple[int, ...] = ANY,
    method: bool = True,
    inplace: bool = True,
    spaces: tuple[str, ...] = ("",),
    aliases: tuple[str, ...] = (),
    node: str | None = None,
    public: bool = True,
    check: Callable | None = None,
    reference: Callable | None = None,
) -> Callable:
    """An op that applies a scalar formula to broadcast operands.

    `result` is the dtype rule: "same" (the promoted type), "float" (integers become the default float),
    "real" (the parts' type of complex numbers) or "bool". Operands may be Python numbers. `check(*operands)`
    refuses mixtures of dtypes that promotion alone would allow.
    """
    tree, names = expr.trace(formula)
    kernel = numpy_reading.read(tree, len(names))
    # One primitive rounds once by itself; a longer formula over narrow floats runs in float32.
    spec, run = _elementwise_rules(name, names, quickened(kernel, tree), result, accepts, check)
    the_op = register(
        Op(name, spec, run, vjp, tree, samples, names, (), node=node_class(node or name)),
    )
    flat = {1: unary_door, 2: binary_door}.get(len(names)) if dtypes.FLOAT in accepts else None
    door = open_door(the_op) if flat is None else flat(the_op, kernel)
    write = door.inplace = writing_door(the_op, kernel)
    if public:
        published = door if flat is unary_door else with_out(door, name)
        for public_name in (name, *aliases):
            writer = write if inplace else None
            registry.FACES.append(
                Face(public_name, published, spaces, method, writer, the_op, samples, vjp, True, reference)
            )
    return door


def unnamed(text: str, tree: expr.Expr, count: int) -> Op:
    """An elementwise op of so many operands that no one can call: what the compiler makes of several."""
    names = tuple(f"x{position}" for position in range(count))
    spec, run = _elementwise_rules(text, names, numpy_reading.read(tree, count), "same", ANY, None)
    return Op(text, spec, run, NO_GRAD, tree, lambda: iter(()), names, ())


def _elementwise_rules(
    name: str, names: tuple, kernel: Callable, result: str, accepts: tuple, check: Callable | None
):
    def types(operands: tuple) -> tuple[dtypes.dtype, dtypes.dtype]:
        """The dtype to compute in and the dtype of the result."""
        common = promoted(name, names, operands)
        if check is not None:
            check(*operands)
        unfit = common.stored and (result == "same" or (result == "float" and common.is_floating_point))
        if unfit or common.category not in accepts:
            facts = dict(zip(names, operands))
            raise error(NotImplementedError, name, f"not implemented for {common}", **facts)
        if result == "float" and common.category < dtypes.FLOAT:
            common = dtypes.get_default_dtype()
        if result == "bool":
            return common, dtypes.bool_
        return common, common.to_real() if result == "real" else common

    def spec(*operands: Any) -> Spec:
        shapes = [x._form.shape for x in operands if isinstance(x, Tensor)]
        return Spec(broadcast(name, *shapes), types(operands)[1])

    def run(*operands: Any) -> ndarray:
        compute, final = types(operands)
        target = compute.numpy
        working = F32 if target in NARROW else target
        arrays = [as_type(x, working) for x in operands]
        value = kernel(*arrays)
        if value.dtype != final.numpy:
            value = value.astype(final.numpy)
        return value

    spec.types = types  # the compiler asks too
    return spec, run


def as_type(operand: Any, target: np.dtype) -> ndarray:
    """An operand as an array of the working type; out-of-range integers wrap, as in PyTorch."""
    if isinstance(operand, ndarray):
        if operand.dtype is target:
            return operand
        # Expanded dimensions would come first in memory.
        return operand.astype(target, order="C" if 0 in operand.strides else "K")
    if type(operand) is int and target.kind in "iu":
        return np.array(operand & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(target)
    return np.asarray(operand).astype(target)


def promoted(op: str, names: tuple[str, ...], operands: tuple) -> dtypes.dtype:
    """The common dtype of tensors, arrays and numbers by PyTorch's three ranks."""
    ranks: list[dtypes.dtype | None] = [None, None, None]
    for position, operand in enumerate(operands):
        data = operand._form if isinstance(operand, Tensor) else operand
        if isinstance(data, ndarray):
            kind, rank = OF_NUMPY[data.dtype], 0 if data.ndim else 1
        elif isinstance(data, NUMBERS):
            kind, rank = dtypes.of_number(data), 2
        else:
            rule = f"argument '{names[position]}' must be Tensor, not {type(data).__name__}"
            raise error(TypeError, op, rule)
        present = ranks[rank]
        ranks[rank] = kind if present is None else dtypes.promote_types(present, kind)
    return dtypes.result_dtype(*ranks)


# Reductions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reduction:
    """The lowering of a reduction: `combine` joins two partial results, from `start`."""

    combine: expr.Expr
    start: float | None  # None: the first element starts, so an empty reduction is an error


def reduction(
    name: str,
    combine: Callable,
    *,
    start: float | None,
    vjp: Any,
    samples: Callable,
    result: str = "same",
    accepts: tuple[int, ...] = ANY,
    node: str | None = None,
    join: Callable | None = None,
) -> Callable:
    """An op `(x, *, dim, keepdim)` that joins elements along the dimensions of the tuple `dim`.

    `result` is "same", "sum" (booleans and integers become int64) or "bool". `join` stands in for the NumPy
    reduction of `combine` when there is a better one.
    """
    tree, _ = expr.trace(combine)
    join = join or numpy_reading.NUMPY[tree.primitive].reduce

    def final(kind: dtypes.dtype) -> dtypes.dtype:
        if kind.category not in accepts or (kind.stored and (result == "same" or kind.is_floating_point)):
            raise error(NotImplementedError, name, f"not implemented for {kind}")
        if result == "bool":
            return dtypes.bool_ if kind is not dtypes.uint8 else kind
        return dtypes.int64 if result == "sum" and kind.category < dtypes.FLOAT else kind

    def spec(x: Tensor, *, dim: tuple[int, ...], keepdim: bool) -> Spec:
        shape = x._form.shape
        if start is None and any(shape[axis] == 0 for axis in dim):
            rule = "expected reduction dim to have a non-zero size: the operation has no identity"
            raise error(IndexError if len(dim) == 1 else RuntimeError, name, rule, input=x)
        return Spec(reduced(shape, dim, keepdim), final(OF_NUMPY[x._form.dtype]))

    def run(x: ndarray, *, dim: tuple[int, ...], keepdim: bool) -> ndarray:
        kind = x.dtype
        if kind is F32 or kind is F64:
            return np.asarray(join(x, axis=dim, keepdims=keepdim), order="C")
        target = final(OF_NUMPY[kind]).numpy
        working = F32 if target in NARROW else target
        if result == "bool" and kind.kind != "b":
            x = x.astype(np.bool_)
        elif kind is not working:
            x = x.astype(working)
        return np.asarray(join(x, axis=dim, keepdims=keepdim), target, order="C")

    the_op = register(
        Op(name, spec, run, vjp, Reduction(tree, start), samples, ("x",), ("dim", "keepdim"),
           node=node_class(node or name))
    )  # fmt: skip
    return open_door(the_op)


# Views, kernels, composites --------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """The lowering of a view: the compiler reads shape, strides, offset off `run` of a memory-less array."""

    run: Callable


def view(
    name: str, run: Callable, *, vjp: Any, samples: Callable, node: str | None = None, outputs: int = 1
) -> Callable:
    """An op whose result shares memory with its operand; `run` returns a NumPy view."""
    tensors, attrs, _ = parameters(run)

    def spec(x: Tensor, **values: Any) -> Any:
        result = run(x._form, **values)
        if isinstance(result, (tuple, list)):
            return [Spec(part.shape, OF_NUMPY[part.dtype]) for part in result]
        return Spec(result.shape, OF_NUMPY[result.dtype])

    the_op = register(
        Op(name, spec, run, vjp, View(run), samples, tensors, attrs, view=True, outputs=outputs,
           node=node_class(node or name))
    )  # fmt: skip
    return open_door(the_op)


def opaque(
    name: str,
    *,
    spec: Callable,
    run: Callable,
    vjp: Any,
    samples: Callable,
    node: str | None = None,
    outputs: int = 1,
    without_grad: tuple[int, ...] = (),
    spec_first: bool = True,
    layout: Callable | None = None,
) -> Callable:
    """A kernel on arrays. With `spec_first=False` the spec is only asked when the kernel itself complains."""
    tensors, attrs, variadic = parameters(run)
    the_op = register(
        Op(name, spec, run, vjp, OPAQUE, samples, tensors, attrs, variadic, outputs,
           node=node_class(node or name), without_grad=without_grad, layout=layout)
    )  # fmt: skip
    return checked(the_op) if spec_first else open_door(the_op)


def fused(
    name: str,
    parts: Callable,
    *,
    vjp: Any,
    samples: Callable,
    spec: Callable,
    run: Callable | None = None,
    check: Callable | None = None,
    node: str | None = None,
    outputs: int = 1,
    without_grad: tuple[int, ...] = (),
    spec_first: bool = True,
    rounds: bool = True,
    at_first_sight: bool = True,
) -> Callable:
    """An op made of others, `parts`, with a gradient of its own.

    A recorder sees the parts, so the compiler can look inside; single calls go through them too, unless a faster
    kernel `run` is stated, which must give the same bits: one column of the op matrix (replay = eager). Parts
    need not think of narrow floats, which reach them as float32 when any of the parts `rounds`. `check` raises
    errors by value on arrays before the parts run. Large arrays have a program of the parts `at_first_sight`.
    """
    tensors, attrs, variadic = parameters(parts if run is None else run)
    if run is None:
        run, spec_first = by_parts(lambda: the_op, check, at_first_sight), True
    the_op = register(
        Op(name, spec, run, vjp, PARTS, samples, tensors, attrs, variadic, outputs,
           node=node_class(node or name), parts=in_float32(parts) if rounds else parts,
           without_grad=without_grad)
    )  # fmt: skip
    return checked(the_op) if spec_first else open_door(the_op)


def in_float32(parts: Callable) -> Callable:
    """The parts with narrow operands made wide; the recorder rounds their results, once, as kernels do."""

    def widened(*operands: Any, **attrs: Any) -> Any:
        return parts(*[wide(x) if isinstance(x, Tensor) else x for x in operands], **attrs)

    return widened


def wide(x: Any) -> Any:
    return x.float() if x._form.dtype in NARROW else x


def composite(
    samples: Callable,
    *,
    spaces: tuple[str, ...] = ("",),
    aliases: tuple[str, ...] = (),
    method: bool = False,
    inplace: bool | Callable = False,
    out: bool = False,
    vjp: Any = PARTS,
    reference: Callable | None = None,
) -> Callable[[Callable], Callable]:
    """A function of other ops, published under PyTorch's name; its gradient comes from its parts.

    `inplace=True` makes `name_` by computing and then assigning; a function says how to write directly.
    """

    def declare(function: Callable) -> Callable:
        return publish(
            function, None, samples, vjp, spaces, aliases, method, inplace, out, reference,
        )  # fmt: skip

    return declare


def face(
    door: Callable,
    *,
    spaces: tuple[str, ...] = ("",),
    aliases: tuple[str, ...] = (),
    method: bool = False,
    inplace: bool | Callable = False,
    out: bool = False,
    reference: Callable | None = None,
) -> Callable[[Callable], Callable]:
    """PyTorch's signature for an op; the op's samples are calls of this function."""
    the_op = door.op

    def declare(function: Callable) -> Callable:
        return publish(
            function, the_op, the_op.samples, the_op.vjp, spaces, aliases, method, inplace, out, reference,
        )  # fmt: skip

    return declare


def publish(
    function: Callable,
    the_op: Op | None,
    samples: Callable,
    vjp: Any,
    spaces: tuple[str, ...],
    aliases: tuple[str, ...],
    method: bool,
    inplace: bool | Callable,
    out: bool,
    reference: Callable | None,
) -> Callable:
    name = function.__name__.rstrip("_") if not function.__name__.startswith("_") else function.__name__
    plain, function = function, casting(function, name, spaces)
    published = with_out(function, name) if out else function
    # PyTorch's functions in nn.functional take PyTorch's names only.
    public = published if out or spaces == ("nn.functional",) else by_either_name(function)
    for public_name in (name, *aliases):
        writer = inplace if callable(inplace) else None
        if inplace is True:
            writer = inplace_form(by_either_name(plain), public_name + "_")
        registry.FACES.append(
            Face(public_name, public, spaces, method, writer, the_op, samples, vjp, out, reference)
        )
    return published


def with_out(function: Callable, name: str) -> Callable:
    """Adds PyTorch's `out=` to a function, and the other names and orders of its arguments."""

    def published(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is not None and mode.autocast is not None:
            return uncast(published, args, {**kwargs, "out": out})
        renamed = older = None
        try:
            result = function(*args, **kwargs)
        except TypeError:
            renamed = pytorch_names(function, kwargs)
            older = scales_by_name(name, args)
            if renamed is None and older is None:
                raise
        if older is not None:
            result = call_again(function, name, older, kwargs)
        elif renamed is not None:
            result = function(*args, **renamed)
        return result if out is None else write_out(out, result, name)

    return standing_for(function, published)


__all__ = ["NO_GRAD", "OPAQUE", "composite", "elementwise", "face", "opaque", "reduction", "view", "wrap"]
