"""A program on a GPU: a schedule as kernels and products, run one after the other or as one CUDA graph.

`CudaProgram(graph)` is what `Program` is on the CPU, with the same methods. Every entry of the schedule becomes
steps; a step's arguments are words in one array, and where memory is another one at every run, its words are
patched. A program that is to be a CUDA graph has inputs and outputs of its own: what comes is copied in and what
goes is copied out, and all that lies between is asked for by one call. Read next: devices/cuda/driver.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from cleargrad.core.address import address as address_of
from cleargrad.core.device import Memory
from cleargrad.core.layout import ghost
from cleargrad.core.tensor import Tensor, owner_of
from cleargrad.devices.cuda import target
from cleargrad.devices.cuda.nests import Kernels, kernels_of
from cleargrad.devices.cuda.parts import expanded
from cleargrad.devices.cuda.products import Matrix
from cleargrad.devices.cuda.rows import Copies, add_rows, copy_many
from cleargrad.devices.cuda.runtime import Block, Runtime, array_in
from cleargrad.devices.cuda.tiled import ALIGNED, Layer, Tiles, apart
from cleargrad.devices.cuda.together import Part, combined, levels, stages
from cleargrad.devices.cuda.triton_code import HIDDEN, Start
from cleargrad.ops.record import Graph
from cleargrad.schedule.formulas import Buffer, Load, Number, kind_of
from cleargrad.schedule.fuse import Member, Nest
from cleargrad.schedule.lifetimes import arena, reads_of, writes_of
from cleargrad.schedule.passes import scheduled
from cleargrad.schedule.statements import AddRows, Host, Product

FIXED = 16  # bytes
OWN_RUNS = 2  # of a program, before it becomes a graph
TRUSTED, ALWAYS = (
    2,
    1 << 40,
)  # runs before which an output was gone, after which it is expected to be; never again


class CudaProgram:
    """A compiled graph."""

    def __init__(self, graph: Graph, runtime: Runtime, others: Any, whole: bool = True) -> None:
        """`others` makes calls that have no kernels here; a program that is `whole` becomes a CUDA graph."""
        self.runtime, self.others, self.whole = runtime, others, whole
        self.schedule = scheduled(expanded(graph, runtime.tiled), target.TARGET)
        self.plan, self.replaced = self.schedule.plan, self.schedule.in_place
        self.copied = self.schedule.copied
        self.words: list[int] = []
        self.patches: dict[
            Buffer, list[tuple[int, int]]
        ] = {}  # words by the memory they point to, with shifts
        self.inside: list[tuple[int, int]] = []  # words that point into the program's own memory
        self.constants: dict[Buffer, np.ndarray] = {}
        self.steps: list[Callable[[], None]] = []
        self.titles: list[str] = []  # of the steps, for whoever asks what takes time
        self.sources: list[tuple[str, str]] = []
        calls = [entry for entry in self.schedule.entries if isinstance(entry, Host)]
        found = ((entry, Tiles.of(entry, runtime.tiled)) for entry in calls)
        self.tiles = {id(entry): tiles for entry, tiles in found if tiles is not None}
        layers = ((entry, Layer.of(entry)) for entry in calls)
        self.layers = {id(entry): layer for entry, layer in layers if layer is not None}
        self.hosted = [entry.call.op.name for entry in calls if self.is_alone(entry)]
        self.groups = levels(self.schedule.entries, self.memory_of(), self.is_alone)
        self.lay_out()
        for group in self.groups:
            self.add_group(group)
        self.table = np.array(self.words or [0], np.int64)
        self.base = self.table.__array_interface__["data"][0]
        runtime.load(self.sources)
        self.output_specs = [(buffer.shape, buffer.dtype) for buffer in self.plan.outputs]
        self.arrays: dict[Buffer, np.ndarray] = dict(self.constants)
        for buffer, array in self.constants.items():
            self.patch(buffer, array)
        self.block = runtime.allocate(self.size)
        for position, shift in self.inside:
            self.table[position] = self.block.address + shift
        self.fixed: Sequence[np.ndarray] = ()  # inputs that are numbers on the CPU
        self.graph: Any = None
        self.runs = 0
        self.bind()

    # Making ------------------------------------------------------------------------------------------------

    def is_alone(self, entry: Any) -> bool:
        """Whether an entry is made by other means, when all before it is done."""
        return isinstance(entry, Host) and id(entry) not in self.tiles and id(entry) not in self.layers

    def lay_out(self) -> None:
        """Decides where every buffer lies."""
        spans = lifetimes(self.groups)
        self.kernels: dict[int, Kernels] = {}
        self.works: dict[int, Buffer] = {}
        self.packed: dict[int, list[Load]] = {}  # of products: operands and result as cuBLAS can take them
        every = [(position, entry) for position, group in enumerate(self.groups) for entry in group]
        for number, (position, entry) in enumerate(every):
            if isinstance(entry, Nest):
                self.kernels[id(entry)] = found = kernels_of(entry)
                size = found.work
            else:
                tiles, layer = self.tiles.get(id(entry)), self.layers.get(id(entry))
                size = 0 if tiles is None else tiles.plan.work
                copies = [*(() if tiles is None else tiles.copies), *(() if layer is None else layer.copies)]
                spans.update(dict.fromkeys((new.buffer for new, _ in copies), (position, position)))
                entry = entry if layer is None else layer.product
            if size:
                work = Buffer(-1 - 4 * number, (size,), np.dtype(np.uint8), "inside", (1,))
                self.works[id(entry)] = work
                spans[work] = (position, position)
            if isinstance(entry, Product):
                loads = (entry.left, entry.right, entry.place)
                self.packed[id(entry)] = packed = [load if fits_blas(load) else apart(load) for load in loads]
                apart_ones = [new.buffer for new, old in zip(packed, loads) if new is not old]
                spans.update(dict.fromkeys(apart_ones, (position, position)))
        for _, buffer in self.copied:
            if buffer in spans:
                spans[buffer] = (spans[buffer][0], len(self.groups))
        self.offsets, self.size = arena(spans, [*self.plan.outputs, *self.replaced])
        for buffer, array in self.plan.constants:
            self.constants[buffer] = on_gpu(self.runtime, array)

    def memory_of(self) -> Callable[[Buffer], Any]:
        """What tells whether buffers may lie in the same memory."""
        outside = {
            buffer: id(owner_of(tensor._data))
            for buffer, tensor in (*self.plan.outside, *self.replaced.items())
        }
        return lambda buffer: outside.get(buffer, buffer)

    def add_group(self, entries: list[Any]) -> None:
        """Entries that do not need each other."""
        parts = []
        for entry in entries:
            if isinstance(entry, Nest):
                parts.append([(launch, entry) for launch in self.kernels[id(entry)].launches])
            elif isinstance(entry, AddRows):
                parts.append([(launch, entry) for launch in add_rows(entry)])
            elif isinstance(entry, Product):
                self.add_product(entry)
            elif id(entry) in self.layers:
                layer = self.layers[id(entry)]
                for new, old in layer.copies:
                    self.copy_launch(new, old)
                self.add_product(layer.product, layer.bias)
            elif id(entry) in self.tiles:
                self.add_tiles(entry, self.tiles[id(entry)])
            else:
                self.add_step(f"call of {entry.call.op.name}", partial(self.call, entry))
        for stage in stages(parts):
            self.add_launch(stage)

    def add_launch(self, parts: list[Part]) -> None:
        first, launch = len(self.words), combined(parts)
        for part, entry in parts:
            for word in part.words or [("number", 0)]:
                self.word(word, entry)
        self.sources.append((launch.name, launch.source))
        run, name, grid, block = self.runtime.launch, launch.name, launch.grid, launch.block
        self.add_step(name, lambda: run(name, grid, block, self.base + 8 * first))

    def add_tiles(self, entry: Host, tiles: Tiles) -> None:
        """Kernels that were written for a call."""
        for new, old in tiles.copies:
            self.copy_launch(new, old)
        for start in tiles.plan.starts:
            words = [*tiles.words(start.pointers), *[("number", 0)] * HIDDEN]
            first, name, binary = len(self.words), start.binary.name, start.binary
            for word in words:
                self.word(word, entry)
            self.runtime.load_binary(name, binary)
            self.add_step(name, partial(self.launch_binary, start, first, len(words)))

    def launch_binary(self, start: Start, first: int, count: int) -> None:
        at = np.arange(count) * 8 + (self.base + 8 * first)
        self.runtime.launch_binary(
            start.binary.name, start.grid, start.binary, at.__array_interface__["data"][0]
        )

    def add_step(self, title: str, work: Callable[[], None]) -> None:
        self.steps.append(work)
        self.titles.append(title)

    def word(self, word: tuple, entry: Any) -> None:
        """An argument; addresses that are bound later are noted."""
        kind, position = word[0], len(self.words)
        self.words.append(0)
        if kind == "number":
            self.words[position] = word[1]
        elif kind == "error":
            self.words[position] = self.runtime.error_block.address
        else:
            load = word[1] if kind == "address" else None
            buffer = self.works[id(entry)] if load is None else load.buffer
            shift = word[1] if load is None else load.offset * load.dtype.itemsize
            if buffer in self.offsets:
                self.inside.append((position, self.offsets[buffer] + shift))
            else:
                self.patches.setdefault(buffer, []).append((position, shift))

    def add_product(self, entry: Product, bias: Load | None = None) -> None:
        """Products by cuBLAS; what lies apart in both dimensions is packed before, or unpacked behind."""
        *batch, m, n = entry.place.shape
        if not prod(entry.place.shape):
            return
        left, right, place = self.packed[id(entry)]
        pairs = [(left, entry.left), (right, entry.right), *([(place, entry.place)] if entry.adds else [])]
        for new, old in pairs:
            if new is not old:
                self.copy_launch(new, old)
        first = len(self.words)
        for load in (left, right, place, *([] if bias is None else [bias])):
            self.word(("address", load), entry)
        sizes = (tuple(batch), m, n, left.shape[-1])
        words = (first, len(self.words))
        work = self.product(entry, words, sizes, left.strides, right.strides, place.strides)
        self.add_step(f"product {kind_of(entry.place.dtype)} {list(sizes)}", work)
        if place is not entry.place:
            self.copy_launch(entry.place, place)

    def copy_launch(self, target: Load, source: Load | Number) -> None:
        nest = Nest((), target.shape, [Member(target, source)])
        for launch in kernels_of(nest).launches:
            self.add_launch([(launch, nest)])

    def product(
        self, entry: Product, words: tuple[int, int], sizes: tuple, left: tuple, right: tuple, place: tuple
    ) -> Callable[[], None]:
        kind, itemsize = kind_of(entry.place.dtype), entry.place.dtype.itemsize
        multiply, beta = self.runtime.multiply, 1.0 if entry.adds else 0.0
        rank = len(sizes[0]) + 2
        every = tuple((0,) * (rank - len(steps)) + tuple(steps) for steps in (left, right, place))
        (batch, m, n, k), (left, right, place) = folded(sizes, every)
        count, apart, outer = stacked(batch, (left, right, place))
        # cuBLAS knows columns: what is stored by rows is computed turned, with its operands exchanged.
        by_rows = place[-1] == 1 or (n == 1 and place[-2] != 1)
        one, other = (right, left) if by_rows else (left, right)
        wide, high = (n, m) if by_rows else (m, n)

        def matrix(address: int, strides: tuple, rows: int, columns: int, apart: int) -> Matrix:
            """A matrix as cuBLAS sees it, of so many rows and columns, where rows are the inner dimension."""
            inner, lead = (strides[-1], strides[-2]) if by_rows else (strides[-2], strides[-1])
            if inner == 1 or rows == 1:
                return Matrix(address, False, max(lead if columns > 1 else rows, rows, 1), apart)
            return Matrix(address, True, max(inner if rows > 1 else columns, columns, 1), apart)

        def run() -> None:
            *addresses, bias = [*self.table[slice(*words)].tolist(), 0][:4]
            for shifts in outer:
                a, b, c = [at + step * itemsize for at, step in zip(addresses, shifts)]
                one_at, other_at = (b, a) if by_rows else (a, b)
                one_apart, other_apart = (apart[1], apart[0]) if by_rows else (apart[0], apart[1])
                first_matrix = matrix(one_at, one, wide, k, one_apart)
                second_matrix = matrix(other_at, other, k, high, other_apart)
                result = matrix(c, place, wide, high, apart[2])
                matrices = (first_matrix, second_matrix, result)
                multiply(kind, (wide, high, k), matrices, count, beta, bias)

        return run

    # Running -----------------------------------------------------------------------------------------------

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs the program on memory of the GPU; outside tensors are changed in place."""
        queues = self.runtime.queues
        if not queues.several:
            return self.run_now(inputs)
        with queues.turn(self):
            return self.run_now(inputs)

    def run_now(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self.fixed:
            self.send_fixed()
        if self.graph is not None:
            return self.run_graph(inputs)
        outputs = [new_array(self.runtime, shape, dtype) for shape, dtype in self.output_specs]
        self.give(
            self.plan.inputs,
            [self.aligned(array) for array in inputs] if self.tiles or self.layers else inputs,
        )
        self.give(self.plan.outputs, outputs)
        self.make_steps()
        self.runs += 1
        alone = self.runtime.queues.recording is None
        if self.whole and self.runs >= OWN_RUNS and not self.hosted and alone:
            self.become_graph(inputs, outputs)
        return outputs

    def aligned(self, array: np.ndarray) -> np.ndarray:
        """An input where kernels of tiles expect it."""
        if not address_of(array) % ALIGNED or not array.size:
            return array
        target = copied(self.runtime, array)
        copy_many(self.runtime, [(target, array)])
        return target

    def give(self, buffers: Sequence[Buffer], arrays: Sequence[np.ndarray]) -> None:
        for buffer, array in zip(buffers, arrays):
            self.arrays[buffer] = array
            self.patch(buffer, array)

    def make_steps(self) -> None:
        for step in self.steps:
            step()
        for tensor, buffer in self.copied:
            self.copy_to(tensor, buffer)

    def copy_to(self, tensor: Tensor, buffer: Buffer) -> None:
        """An outside tensor gets its new value, laid out in its own way."""
        source, target = self.array(buffer), tensor._data
        if source.dtype == target.dtype and target.flags.c_contiguous:
            self.runtime.copy(address_of(target), address_of(source), target.nbytes)
        else:
            self.others.write(target, source)

    def become_graph(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """From now on, inputs are copied to where they are now, and outputs from there."""
        changing = inputs[: len(self.plan.inputs)]
        self.own_inputs = [copied(self.runtime, array) for array in changing]
        self.own_outputs = [Own(self.runtime, array) for array in outputs]
        self.coming = Copies(self.runtime, self.own_inputs, changing)
        self.give(self.plan.inputs, self.own_inputs)
        self.record()

    def record(self) -> None:
        """Makes the graph, of memory as it is bound now."""
        self.give(self.plan.outputs, [own.array for own in self.own_outputs])
        self.graph = self.runtime.capture(self.make_steps)

    def run_graph(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        moved = [own.must_move() for own in self.own_outputs]
        if True in moved:
            self.record()
        self.coming.make(inputs)
        if self.runtime.queues.recording is None:
            self.runtime.replay(self.graph)
        else:
            self.make_steps()  # a graph is no part of another one
        outputs = [own.handed_out() for own in self.own_outputs]
        copies = [(out, own.array) for own, out in zip(self.own_outputs, outputs) if not own.lends]
        if copies:
            copy_many(self.runtime, copies)
        return outputs

    def send_fixed(self) -> None:
        """Numbers of the CPU go to the GPU all together, where one of them has changed."""
        now = b"".join([array.tobytes() for array in self.fixed])
        if now != self.sent:
            self.sent = now
            self.staged[:] = np.frombuffer(b"".join(spaced(self.fixed)), np.uint8)
            self.runtime.upload(address_of(self.there), self.staged)

    # Binding -----------------------------------------------------------------------------------------------

    def fix(self, first: int, arrays: Sequence[np.ndarray]) -> None:
        """Inputs from a number on are these arrays of the CPU at every run."""
        if not arrays:
            return
        self.fixed, self.sent = arrays, b""
        size = sum(map(len, spaced(arrays)))
        self.staged = np.zeros(size, np.uint8)
        self.there = new_array(self.runtime, (size,), self.staged.dtype)
        start = 0
        for number, array in enumerate(arrays, first):
            there = np.ndarray(array.shape, array.dtype, self.there, start)
            start += len(spaced([array])[0])
            self.give([self.plan.inputs[number]], [there])
        self.plan.inputs = self.plan.inputs[:first]

    def leave_to_owner(self, tensors: Sequence[Tensor]) -> None:
        """`run` looks no more where these are: whoever gives them other memory calls `bind`."""
        self.bind()

    def bind(self) -> None:
        """Finds the outside tensors in memory."""
        self.graph = None
        for buffer, tensor in (*self.plan.outside, *self.replaced.items()):
            array = tensor._data
            if not is_on_gpu(array):  # what parts of an op have made is the same in every run
                array = on_gpu(self.runtime, array)
            self.arrays[buffer] = array
            self.patch(buffer, array)

    def forget_making(self, graph: Graph) -> None:
        """Gives up what was needed to make it."""
        graph.calls = []
        hosts = [entry for entry in self.schedule.entries if isinstance(entry, Host)]
        self.schedule.entries, self.plan.statements, self.kernels, self.groups = hosts, [], {}, []

    def patch(self, buffer: Buffer, array: np.ndarray) -> None:
        patches = self.patches.get(buffer)
        if patches:
            at = address_of(array)
            for position, shift in patches:
                self.table[position] = at + shift

    # Calls that have no kernels here -----------------------------------------------------------------------

    def call(self, entry: Any) -> None:
        """Has a call made by other means, on arrays on the GPU."""
        operands = []
        for operand, given in zip(entry.operands, entry.call.operands, strict=True):
            if isinstance(operand, Load):
                operands.append(self.view(operand))
            elif isinstance(operand, Number):
                operands.append(np.full(given.spec.shape, operand.value, operand.dtype))
            else:
                operands.append(operand)
        targets = [self.array(buffer) for buffer in entry.results]
        self.others.into(entry.call.op, operands, entry.call.attrs, targets)

    def array(self, buffer: Buffer) -> np.ndarray:
        if buffer in self.arrays:
            return self.arrays[buffer]
        whole = np.asarray(self.block)
        return np.ndarray(buffer.shape, buffer.dtype, whole, self.offsets[buffer])

    def view(self, load: Load) -> np.ndarray:
        """What a load reads, as an array at the GPU's addresses."""
        array, size = self.array(load.buffer), load.dtype.itemsize
        strides = tuple(step * size for step in load.strides)
        return array_at(address_of(array) + load.offset * size, load.shape, load.dtype, strides, array)


def is_on_gpu(array: np.ndarray) -> bool:
    """Whether an array's elements lie on the GPU."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, (Block, Place))


def spaced(arrays: Sequence[np.ndarray]) -> list[bytes]:
    """The elements of arrays, each of which begins where any dtype may."""
    return [array.tobytes().ljust(-(-array.nbytes // FIXED) * FIXED, b"\0") for array in arrays]


class Own:
    """An output of a graph, in memory of the graph's own.

    It is handed out as a copy, unless what was handed out is always gone before the next run, as gradients are: it
    is lent then. If that turns out wrong, it stays with whoever has it, and the graph gets other memory.
    """

    lends = False

    def __init__(self, runtime: Runtime, like: np.ndarray) -> None:
        self.runtime, self.shape, self.dtype = runtime, like.shape, like.dtype
        self.seen: weakref.ref | None = None  # what was handed out last
        self.trust = 0  # how often it was gone
        self.move()

    def move(self) -> None:
        """Takes new memory."""
        self.array = new_array(self.runtime, self.shape, self.dtype)
        self.address = address_of(self.array)

    def must_move(self) -> bool:
        """Whether the graph has to be made again, before a run, since somebody still has what it would write to."""
        gone = self.seen is None or self.seen() is None
        self.trust = self.trust + 1 if gone else -ALWAYS
        if self.lends and not gone:
            self.lends = False
            self.move()
            return True
        self.lends = self.trust > TRUSTED
        return False

    def handed_out(self) -> np.ndarray:
        if not self.lends:
            array = new_array(self.runtime, self.shape, self.dtype)
            self.seen = weakref.ref(owner_of(array))
            return array
        place = Place(self.address, max(self.array.nbytes, 1), self.array)
        self.seen = weakref.ref(place)
        return np.ndarray(self.shape, self.dtype, np.asarray(place))


class Place(Memory):
    """Memory at an address, and who keeps it."""

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3,
        }  # fmt: skip


def array_at(address: int, shape: tuple, dtype: np.dtype, strides: tuple, owner: Any) -> np.ndarray:
    """An array at an address on the GPU, which keeps the owner of the memory alive."""
    low = sum((n - 1) * step for n, step in zip(shape, strides) if step < 0 and n)
    high = sum((n - 1) * step for n, step in zip(shape, strides) if step > 0 and n)
    if 0 in shape:
        low = high = 0
    memory = np.asarray(Place(address + low, high - low + dtype.itemsize, owner))
    return np.ndarray(shape, dtype, memory, -low, strides)


def new_array(runtime: Runtime, shape: tuple, dtype: np.dtype, strides: tuple | None = None) -> np.ndarray:
    """An array in memory of its own on the GPU."""
    form = ghost(shape, dtype, strides)
    nbytes = form.size * dtype.itemsize
    if strides is not None and form.size:
        nbytes = sum((n - 1) * step for n, step in zip(shape, strides)) + dtype.itemsize
    block: Block = runtime.allocate(max(nbytes, dtype.itemsize))
    return (
        array_in(block, shape, dtype, strides) if form.size else np.ndarray(shape, dtype, np.asarray(block))
    )


def on_gpu(runtime: Runtime, array: np.ndarray) -> np.ndarray:
    """A copy of an array of the CPU on the GPU, laid out as it is where it has no gaps."""
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    dense = np.asarray(array.transpose(order), order="C")
    there = new_array(runtime, dense.shape, array.dtype)
    if dense.size:
        runtime.upload(address_of(there), dense)
    back = sorted(range(array.ndim), key=lambda axis: order[axis])
    return there.transpose(back)


def copied(runtime: Runtime, array: np.ndarray) -> np.ndarray:
    """Memory of its own for what is laid out as an array of the GPU is."""
    if not array.size or min(array.strides, default=0) < 0:
        return new_array(runtime, array.shape, array.dtype)
    return new_array(runtime, array.shape, array.dtype, array.strides)


def lifetimes(groups: list[list[Any]]) -> dict[Buffer, tuple[int, int]]:
    """The first and the last group that touches each inside buffer."""
    spans: dict[Buffer, tuple[int, int]] = {}
    for position, group in enumerate(groups):
        for entry in group:
            for buffer in [*writes_of(entry), *(load.buffer for load in reads_of(entry))]:
                if buffer.role == "inside":
                    spans[buffer] = (spans.get(buffer, (position, 0))[0], position)
    return spans


def fits_blas(load: Load) -> bool:
    """Whether cuBLAS can read a matrix where it lies: its rows or its columns are dense."""
    (m, n), (row, column) = load.shape[-2:], load.strides[-2:]
    by_rows = (column == 1 or n == 1) and (row >= n or m == 1)
    by_columns = (row == 1 or m == 1) and (column >= m or n == 1)
    positive = all(step >= 0 for step in load.strides)
    return positive and (by_rows or by_columns) and not load.index


def folded(sizes: tuple, strides: tuple) -> tuple[tuple, tuple]:
    """Matrices of a stack that lie behind one another as one larger matrix, where the other operand is the same for
    all of them; and dimensions of a stack as one, where matrices lie evenly."""
    batch, m, n, k = sizes
    left, right, place = map(list, strides)
    extents = list(batch)
    while extents:
        count = extents[-1]
        if m == 1 and left[-1] == place[-1] == 1 and left[-3] >= k and place[-3] >= n:
            left[-2], place[-2] = left[-3], place[-3]  # single rows, whose own distance means nothing
        if right[-3] == 0 and left[-3] == m * left[-2] and place[-3] == m * place[-2]:
            m *= count
        elif left[-3] == 0 and right[-3] == n * right[-1] and place[-3] == n * place[-1]:
            n *= count
        elif len(extents) > 1 and all(x[-4] == count * x[-3] for x in (left, right, place)):
            extents[-2] *= count
            for x in (left, right, place):
                x[-4] = x[-3]
        else:
            break
        extents.pop()
        for x in (left, right, place):
            del x[-3]
    return (tuple(extents), m, n, k), (tuple(left), tuple(right), tuple(place))


def stacked(batch: tuple[int, ...], strides: tuple) -> tuple[int, tuple, list[tuple]]:
    """The matrices of a stack as runs of evenly spaced ones: how many, how far apart, and where runs begin."""
    if not batch:
        return 1, (0, 0, 0), [(0, 0, 0)]
    axes = sorted(range(len(batch)), key=lambda axis: -batch[axis])
    inner = axes[0]
    apart = tuple(steps[inner] for steps in strides)
    outer: list[tuple] = [(0, 0, 0)]
    for axis in axes[1:]:
        steps = [each[axis] for each in strides]
        outer = [
            tuple(at + place * step for at, step in zip(start, steps))
            for start in outer
            for place in range(batch[axis])
        ]
    return batch[inner], apart, outer
