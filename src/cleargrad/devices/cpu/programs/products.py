"""Products of matrices for single calls: arrays go in, the compiler's tiles multiply them on the team's threads.

NumPy's linear algebra library adds up in an order of its own, and it keeps threads of its own, which stay awake for
milliseconds after every call and take the processors from the team that runs all other kernels. A product is
prepared once for each shape and layout of its operands; its machine code serves many of those. Read next:
devices/cpu/kernels/gemm.py.
"""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np

from cleargrad.devices.cpu.kernels import gemm
from cleargrad.devices.cpu.launch import SMALL, Launch, Launcher, Launches, Prepared
from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.programs.loops import kernel_of
from cleargrad.devices.cpu.programs.signature import arguments_of
from cleargrad.devices.cpu.team import team
from cleargrad.expr.expr import Var, add
from cleargrad.schedule.formulas import Buffer, Formulas
from cleargrad.schedule.fuse import Member, Nest

ANY_LENGTH = 2053  # a length that suits no vector, so that the code serves every length

_ready = Prepared()


def prepared(x: np.ndarray, y: np.ndarray, out: np.ndarray, biased: bool) -> Launcher:
    """The launcher of a product of one shape and layout."""
    needed = launches_of(x, y, out)
    if biased:
        rows, columns = out.shape
        words = [rows, columns, ("place", 0), columns, ("bias", 0)]
        needed = Launches([*needed.launches, Launch(bias_kernel(x.dtype), words, rows)], needed.work)
    names = ("left", "right", "place", *(["bias"] if biased else []))
    return Launcher(needed, prod(out.shape) * x.shape[-1] < SMALL, names)


def launches_of(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> Launches:
    """How a product is computed; one matrix stands for a stack with strides of zero."""
    size = x.itemsize
    left, right, place = (
        [0] * (out.ndim - array.ndim)
        + [
            0 if extent == 1 and axis < array.ndim - 2 else step // size
            for axis, (extent, step) in enumerate(zip(array.shape, array.strides, strict=True))
        ]
        for array in (x, y, out)
    )
    extents = (out.shape[:-2], x.shape[-2], y.shape[-1], x.shape[-1])
    return gemm.product(*extents, x.dtype, left, right, place, team().threads)


@cache
def bias_kernel(kind: np.dtype) -> Kernel:
    """A kernel that adds a vector to rows; its words: rows, columns, matrix, distance of rows, vector."""
    formulas, shape = Formulas(), (7, ANY_LENGTH)
    matrix = formulas.load(Buffer(0, shape, kind, "input", (2 * ANY_LENGTH, 1)))
    vector = formulas.load(Buffer(1, (ANY_LENGTH,), kind, "input", (1,)), shape, (0, 1))
    value = formulas.map(add(Var("x", 0), Var("y", 1)), (matrix, vector), kind, kind, shape)
    nest = Nest(shape[:1], shape[1:], [Member(matrix, value)])
    arguments = arguments_of(nest)
    assert [word[0] for word in arguments.words if isinstance(word, tuple)] == [matrix.buffer, vector.buffer]
    return kernel_of(nest, arguments)


def product(
    x: np.ndarray, y: np.ndarray, bias: np.ndarray | None = None, out: np.ndarray | None = None
) -> np.ndarray:
    """x @ y, of float32 or float64, plus a bias for the rows of a matrix."""
    kind = x.dtype
    key = (kind, x.shape, x.strides, y.shape, y.strides, bias is None, None if out is None else out.strides)
    if out is None:
        lead = x.shape[:-2] if y.ndim == 2 else np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        out = np.empty((*lead, x.shape[-2], y.shape[-1]), kind)
    found = _ready.get(key)
    if found is None:
        if not out.size:
            return out
        if not all(map(simple, (x, y, out))) or not (bias is None or simple(bias)):
            return product_of_copies(x, y, bias, out)
        found = _ready.made(key, prepared, x, y, out, bias is not None)
    if bias is None:
        found.run(x, y, out)
    else:
        found.run(x, y, out, bias)
    return out


def product_of_copies(x: np.ndarray, y: np.ndarray, bias: np.ndarray | None, out: np.ndarray) -> np.ndarray:
    """For operands that lie too strangely for the kernels."""
    copies = [None if array is None else np.ascontiguousarray(array) for array in (x, y, bias)]
    out[...] = product(*copies)  # type: ignore[arg-type]
    return out


def simple(array: np.ndarray) -> bool:
    """Whether the kernels take an array: it lies along one of its last dimensions, in whole elements."""
    size = array.itemsize
    near = array.ndim < 2 or size in array.strides[-2:]
    return near and array.flags.aligned and all(step >= 0 and step % size == 0 for step in array.strides)
