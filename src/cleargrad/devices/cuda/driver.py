"""The device "cuda": a call becomes a program of one op, made once for every layout of operands.

What a schedule can express (formulas, reductions, products, choices by index) has kernels that way; devices/cuda/
calls.py has other ways for some ops; the rest is computed by the CPU and copied, which `explain` counts. Read next:
devices/cuda/program.py.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from cleargrad.core.device import Driver, Held, device
from cleargrad.core.mode import mode
from cleargrad.core.precision import switches
from cleargrad.core.tensor import wrap
from cleargrad.devices.cuda import draws, gpus, parts
from cleargrad.devices.cuda.calls import CALLS
from cleargrad.devices.cuda.copying import Copying
from cleargrad.devices.cuda.program import (
    CudaProgram,
    Place,
    address_of,
    array_at,
    is_on_gpu,
    new_array,
    on_gpu,
)
from cleargrad.devices.cuda.queues import pinned_of
from cleargrad.devices.cuda.runtime import Block, Runtime
from cleargrad.devices.cuda.text import HELD
from cleargrad.devices.cuda.tiled import LINEAR, WHOLE
from cleargrad.errors import AcceleratorError, error
from cleargrad.ops.op import OPAQUE, PARTS
from cleargrad.ops.record import CaptureError, Recorder
from cleargrad.schedule.formulas import kind_of

MOST = 4096  # programs of single calls
IN_SCHEDULES = frozenset(
    (
        "mm",
        "bmm",
        "clone",
        "to_copy",
        "gather",
        "index",
        "index_put",
        "cat",
        "as_strided_scatter",
        "as_strided_copy",
    )
)


class Cuda(Driver):
    """NVIDIA GPUs."""

    type = "cuda"
    addressed = True

    def __init__(self, runtime: Runtime | None = None) -> None:
        self._runtime = runtime
        self.index = 0  # of the GPU that this process works with
        self.programs: dict[Any, CudaProgram | None] = {}
        self.copies: dict[Any, Copying] = {}
        self.places: dict[int, device] = {}
        self.on_host: Counter[str] = Counter()  # calls that the CPU made, by op
        self.seeds = draws.Seeds()
        self.lock = threading.RLock()

    @property
    def runtime(self) -> Runtime:
        if self._runtime is None:
            self._runtime = Runtime(self.index)
        return self._runtime

    @property
    def whole(self) -> frozenset[str]:  # type: ignore[override]
        return WHOLE | {LINEAR} if self.runtime.tiled is not None else frozenset((LINEAR,))

    @property
    def is_started(self) -> bool:
        return self._runtime is not None

    def place(self, asked: device) -> device:
        if asked.index is not None and asked.index != self.index:
            self.choose(asked.index)
        return self.places.setdefault(self.index, device("cuda", self.index))

    def choose(self, index: int) -> None:
        """The process works with this GPU; it can be chosen until the first work."""
        if index == self.index:
            return
        if index >= self.count:
            rule = f"CUDA error: invalid device ordinal: there is no GPU {index}"
            raise error(AcceleratorError, "cuda", rule, gpus=self.count)
        if self.is_started:
            rule = f"a process works with one GPU, and this one works with cuda:{self.index}"
            fix = "start a process for each GPU, and call torch.cuda.set_device(rank) there before all else"
            raise error(RuntimeError, "cuda", rule, asked=f"cuda:{index}", fix=fix)
        self.index = index

    @property
    def count(self) -> int:
        return max(gpus(), 1)

    # Memory ------------------------------------------------------------------------------------------------

    def allocate(self, form: np.ndarray) -> np.ndarray:
        return new_array(self.runtime, form.shape, form.dtype, form.strides)

    def receive(self, array: np.ndarray) -> np.ndarray:
        there = on_gpu(self.runtime, array)
        if pinned_of(array) is not None:
            self.runtime.queues.current.synchronize()
        return there

    def receive_later(self, array: np.ndarray) -> np.ndarray:
        there = on_gpu(self.runtime, array)
        pinned = pinned_of(array)
        if pinned is not None and self.runtime.queues.recording is None:
            pinned.event = self.runtime.queues.mark()
        return there

    def pin(self, array: np.ndarray) -> np.ndarray:
        return self.runtime.queues.pin(array)

    def is_pinned(self, array: np.ndarray) -> bool:
        return pinned_of(array) is not None

    def keep_until(self, memory: np.ndarray, stream: Any) -> None:
        block: Any = memory
        while not isinstance(block, Block):
            block = block.owner if isinstance(block, Place) else block.base
        if block.streams is None:
            block.streams = (self.runtime.queues, [])
        block.streams[1].append(stream._stream)

    def give(self, memory: np.ndarray, form: np.ndarray) -> np.ndarray:
        if not memory.flags.c_contiguous:
            order = sorted(range(memory.ndim), key=lambda axis: -abs(memory.strides[axis]))
            turned = memory.transpose(order)
            if not turned.flags.c_contiguous:
                turned = self.dense(turned)
            back = sorted(range(memory.ndim), key=lambda axis: order[axis])
            return self.give(turned, turned).transpose(back)
        array = np.empty(memory.shape, memory.dtype)
        if array.size:
            self.runtime.download(array, address_of(memory))
        if self.runtime.index_failed():
            raise error(
                IndexError, "cuda", "an index was out of range in a call made before this value was read"
            )
        return array

    def dense(self, memory: np.ndarray) -> np.ndarray:
        """A copy without gaps."""
        target = new_array(self.runtime, memory.shape, memory.dtype)
        self.write(target, target, memory)
        return target

    def write(self, target: np.ndarray, form: np.ndarray, source: np.ndarray) -> None:
        if not target.size:
            return
        same = (
            target.dtype == source.dtype and target.shape == source.shape and target.strides == source.strides
        )
        if same and (target.flags.c_contiguous or target.flags.f_contiguous):
            self.runtime.copy(address_of(target), address_of(source), target.nbytes)
            return
        if not {kind_of(target.dtype), kind_of(source.dtype)} <= HELD.keys():
            if source.dtype != target.dtype:
                source = self.receive(self.give(source, source).astype(target.dtype))
            target, source = as_bits(target), as_bits(source)
        if np.may_share_memory(target, source):
            source = self.dense(source)
        if source.shape != target.shape:
            source = np.broadcast_to(source, target.shape)
        self.copying(target, source).run(target, source)

    def fill(self, target: np.ndarray, form: np.ndarray, value: np.ndarray) -> None:
        if target.flags.c_contiguous and not value.tobytes().strip(b"\0"):
            if target.size:
                self.runtime.clear(address_of(target), target.nbytes)
            return
        self.write(target, form, self.receive(value))

    def copying(self, target: np.ndarray, source: np.ndarray) -> Copying:
        key = (target.shape, target.strides, target.dtype, source.strides, source.dtype)
        found = self.copies.get(key)
        if found is None:
            found = self.copies[key] = Copying(self.runtime, target, source)
        return found

    def synchronize(self) -> None:
        self.runtime.synchronize()

    # Calls -------------------------------------------------------------------------------------------------

    def run(self, op: Any, operands: Sequence, attrs: dict[str, Any], forms: Sequence[np.ndarray]) -> list:
        if op.view:
            return list(forms)
        arrays = [x.memory if isinstance(x, Held) else x for x in operands]
        results = self.made(op, arrays, attrs)
        return [self.laid_out(result, form) for result, form in zip(results, forms, strict=True)]

    def laid_out(self, result: np.ndarray, form: np.ndarray) -> np.ndarray:
        """A result in the layout that was foretold."""
        if result.strides == form.strides or result.size <= 1:
            return result
        target = self.allocate(form)
        self.write(target, form, result)
        return target

    def made(self, op: Any, arrays: list, attrs: dict[str, Any]) -> list:
        """What an op gives, of arrays on the GPU."""
        call = CALLS.get(op.name)
        if call is not None:
            results = call(self, op, arrays, attrs)
            if results is not None:
                return results
        program, given = self.program_of(op, arrays, attrs)
        if program is not None:
            with self.lock:
                return program.run(given)
        return self.made_on_host(op, arrays, attrs)

    def program(self, graph: Any) -> CudaProgram:
        return CudaProgram(graph, self.runtime, self)

    def program_of(self, op: Any, arrays: list, attrs: dict[str, Any]) -> tuple[CudaProgram | None, list]:
        """The program of a call, and what it is run on; None if there is none."""
        if op.lower is OPAQUE and op.name not in IN_SCHEDULES and op.name not in parts.PARTS:
            return None, []
        given = [x for x in arrays if isinstance(x, np.ndarray)]
        kinds = {x.dtype for x in given}
        # A float may be another one every time, so it is an operand: of the dtype that all others have.
        floats = kinds.pop() if len(kinds) == 1 else None
        floats = floats if floats in (np.float32, np.float64) and op.lower is not PARTS else None
        layout: list[Any] = [op.name]
        free: list[np.ndarray] = []
        for x in arrays:
            if isinstance(x, np.ndarray):
                layout.append((x.shape, x.strides, x.dtype))
            elif type(x) is float and floats is not None:
                layout.append(float)
                free.append(np.array(x, floats))
            else:
                layout.append((type(x), repr(x)))
        stream = attrs.get("stream")  # of random numbers: what it has come to is no part of the program
        key = (
            *layout,
            switches(),
            id(stream),
            repr({**attrs, "stream": None} if stream is not None else attrs),
        )
        with self.lock:
            if key not in self.programs:
                if len(self.programs) > MOST:
                    self.programs.clear()
                self.programs[key] = self.compiled(op, arrays, attrs, floats)
            program = self.programs[key]
        numbers = [on_gpu(self.runtime, x) for x in free]
        return program, [*given, *numbers]

    def compiled(self, op: Any, arrays: list, attrs: dict[str, Any], floats: Any) -> CudaProgram | None:
        before = mode.set(
            grad=False,
            autocast=None,
            observer=None,
            saved_hooks=None,
            inference=False,
            waiter=None,
            anomaly=False,
        )
        try:
            with Recorder(self.whole) as recorder:
                given = list(arrays)
                forms = [x for x in arrays if isinstance(x, np.ndarray)]
                numbers = [k for k, x in enumerate(arrays) if type(x) is float and floats is not None]
                forms += [np.zeros((), floats) for _ in numbers]
                places = [k for k, x in enumerate(arrays) if isinstance(x, np.ndarray)] + numbers
                for k, form in zip(places, forms, strict=True):
                    given[k] = recorder.input(wrap(form))
                spec = op.spec(*given, **attrs)
                if op.lower is PARTS and op.name not in self.whole:
                    outs = recorder.parts_of(op, tuple(given), attrs, spec)
                else:
                    found = recorder.call(op, tuple(given), attrs)
                    outs = list(found) if isinstance(found, (list, tuple)) else [found]
                graph = recorder.finish(outs)
        except CaptureError:
            return None
        finally:
            mode.set(**before)
        graph.input_arrays = forms
        program = CudaProgram(graph, self.runtime, self, whole=False)
        if op.name in program.hosted:
            return None
        program.forget_making(graph)
        return program

    def into(self, op: Any, operands: list, attrs: dict[str, Any], targets: list[np.ndarray]) -> None:
        """A call whose results go to places of a program."""
        arrays = [
            on_gpu(self.runtime, x) if isinstance(x, np.ndarray) and not is_on_gpu(x) else x for x in operands
        ]
        for result, target in zip(self.made(op, arrays, attrs), targets, strict=True):
            self.write(target, target, result)

    def made_on_host(self, op: Any, arrays: list, attrs: dict[str, Any]) -> list:
        """What an op gives, computed by the CPU."""
        self.on_host[op.name] += 1
        given = [self.give(x, x) if isinstance(x, np.ndarray) else x for x in arrays]
        results = op.run(*given, **draws.on_host(attrs))
        several = results if isinstance(results, (list, tuple)) else [results]
        return [self.receive(np.asarray(result)) for result in several]


def as_bits(array: np.ndarray) -> np.ndarray:
    """The same memory as whole numbers, for copies of dtypes that kernels do not compute with."""
    if array.itemsize <= 8:
        return array.view(f"i{array.itemsize}")
    shape, strides = (*array.shape, array.itemsize // 8), (*array.strides, 8)
    return array_at(address_of(array), shape, np.dtype(np.int64), strides, array)
