"""A program: records of kernels over one block of memory, run by one native call (or a few, around host
calls).

`Program(graph)` compiles a recorded graph; `run` binds inputs and outside tensors by reference, runs, and
gives back the outputs. What outside tensors become is in their memory afterwards. Read next:
devices/cpu/programs/loops.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cleargrad.core.address import address
from cleargrad.core.pace import give_way
from cleargrad.core.tensor import Tensor, as_array
from cleargrad.devices.cpu.kernels import add_rows as scatter
from cleargrad.devices.cpu.kernels import copying, gemm, sequence
from cleargrad.devices.cpu.launch import CommandList, Launch, Launches
from cleargrad.devices.cpu.llvm.jit import Kernel
from cleargrad.devices.cpu.llvm.text import Code, Val, element_of
from cleargrad.devices.cpu.programs import blocks
from cleargrad.devices.cpu.programs.chains import Chain, ChainPlan, grouped, operands_of, placed, planned
from cleargrad.devices.cpu.programs.loops import MEMORY, kernel_of
from cleargrad.devices.cpu.programs.signature import arguments_of, place_of, units
from cleargrad.devices.cpu.programs.target import TARGET
from cleargrad.devices.cpu.short import Job
from cleargrad.devices.cpu.team import ALONE, RECORD, WAIT, team
from cleargrad.ops.record import Graph
from cleargrad.schedule.formulas import Buffer, Load, Number, kind_of
from cleargrad.schedule.fuse import Nest
from cleargrad.schedule.lifetimes import arena, lifetimes, reads_of, writes_of
from cleargrad.schedule.passes import scheduled
from cleargrad.schedule.statements import AddRows, Host, Native, Product


class OutOfRange(IndexError):
    """An index was out of range in a program, which has written nothing that anybody can see."""


SMALL = 16_384  # elements times work: below, one thread is quicker than two
LITTLE = 4 * SMALL  # of a whole program: below, Python's lock is held while it runs
kernels: dict[str, Kernel] = {}  # by signature, for all programs

OUT_OF_RANGE = "an index was out of range in a compiled program"
empty = np.empty


class Program:
    """A compiled graph."""

    by_rows = True  # whether threads may keep to rows of their own
    little = LITTLE
    told: frozenset[int] = frozenset()  # ids of tensors whose owner calls `bind` when they have other memory
    block: blocks.Block | None

    def __init__(self, graph: Graph) -> None:
        self.schedule = scheduled(graph, TARGET)
        self.plan, self.replaced = self.schedule.plan, self.schedule.in_place
        self.copied = self.schedule.copied
        self.lay_out()
        self.write_records()
        self.prepare()

    # Building ----------------------------------------------------------------------------------------------

    def lay_out(self) -> None:
        """Decides where every buffer lies."""
        plan, entries, self.sure = self.plan, self.schedule.entries, self.schedule.sure
        if self.by_rows and team().threads > 1:
            final = {buffer for _, buffer in plan.writes}
            parts = [grouped(some, final) for some in (entries[: self.sure], entries[self.sure :])]
            entries, self.sure = parts[0] + parts[1], len(parts[0])
        self.entries = entries
        outputs = list(dict.fromkeys(plan.outputs))
        spans = lifetimes(self.entries)
        self.products: dict[int, tuple[Launches, Buffer]] = {}
        self.chains: dict[int, ChainPlan] = {}
        for position, entry in enumerate(self.entries):
            if isinstance(entry, Chain):
                found = self.chains[id(entry)] = planned(entry, team().threads, product_launches)
                spans.update(dict.fromkeys(found.work, (position, position)))
            if isinstance(entry, (Product, Native)):
                threads = team().threads
                needed = (
                    entry.choose(threads=threads)
                    if isinstance(entry, Native)
                    else product_launches(entry, threads)
                )
                work = Buffer(-1 - position, (needed.work,), np.dtype(np.uint8), "inside", (1,))
                self.products[id(entry)] = (needed, work)
                spans[work] = (position, position)
        for _, buffer in self.copied:
            if buffer in spans:
                spans[buffer] = (spans[buffer][0], len(self.entries))
        self.offsets, self.size = arena(spans, [*outputs, *self.replaced])
        self.block = None if self.size >= blocks.LARGE else blocks.Block(self.size)  # None: it borrows one
        self.base = 0 if self.block is None else self.block.base
        self.outside_arrays = {buffer: tensor._data for buffer, tensor in plan.outside}
        self.outputs = outputs

    def write_records(self) -> None:
        self.segments: list[Any] = []  # (first record, number of records), or an entry that the host runs
        self.commands = CommandList()
        self.work = 0  # of all kernels, about
        self.final: dict[Buffer, Any] = {}  # outside tensors to which results are copied by the last kernels
        self.error = np.zeros(1, np.int64)
        touched = Touched(self.range)
        flags: list[int] = []
        begin = 0

        def close() -> None:
            nonlocal begin
            if len(flags) > begin:
                self.segments.append((begin, len(flags) - begin))
            begin = len(flags)
            touched.forget()

        copies = self.final_copies()
        for position, entry in enumerate([*self.entries, *copies]):
            give_way()
            tasks = self.tasks(entry)
            if tasks is None:
                close()
                self.segments.append(entry)
                continue
            for task in tasks:
                waits = touched.conflicts(task.reads, task.writes) or isinstance(entry, FinalCopy)
                self.work += task.work
                flags.append((WAIT if waits else 0) | (ALONE if task.alone else 0))
                self.commands.add(self.with_parts(task), flags[-1])
            if position == self.sure - 1:
                close()  # what comes after writes tensors from outside, and must not run if this fails
        close()
        self.finish_records()
        self.threads = [
            2 if any(not flag & ALONE for flag in flags[begin : begin + count]) else 1
            for begin, count in [s for s in self.segments if isinstance(s, tuple)]
        ]

    def with_parts(self, task: Task) -> Launch:
        """The launch of a task, after the parts that it makes, if it is a chain's."""
        if task.shares is None:
            return task.launch
        arguments: list[Any] = []
        for share in task.shares:
            arguments += [self.commands.next_part(), len(share)]
            for part in share:
                self.commands.add_part(*part)
        return replace(task.launch, arguments=arguments)

    def finish_records(self) -> None:
        """Compiles the kernels, and writes the addresses of the program's own memory."""
        commands = self.commands
        commands.finish()
        commands.bind("error", address(self.error))
        self.inside: list[int] = []  # where the words are that point into the program's block
        for buffer, offset in self.offsets.items():
            commands.bind(buffer, self.base + offset)
            self.inside += [position for position, _ in commands.patches.pop(buffer, ())]

    def final_copies(self) -> list[FinalCopy]:
        """The copies that kernels can make of results to outside tensors; `copied` keeps the others."""
        found, left = [], []
        for tensor, buffer in self.copied:
            form = tensor._form
            if buffer.role == "inside" and form.dtype == buffer.dtype and form.flags.c_contiguous:
                place = Buffer(buffer.number, buffer.shape, buffer.dtype, "outside", buffer.strides)
                self.final[place] = tensor
                found.append(FinalCopy(whole(place), whole(buffer)))
            else:
                left.append((tensor, buffer))
        self.late = left
        return found

    def tasks(self, entry: Any) -> list[Task] | None:
        """The launches of an entry; None if the host must run it."""
        if isinstance(entry, FinalCopy):
            to, source = entry.to.buffer, entry.source.buffer
            size = source.size * source.dtype.itemsize
            launch = Launch(copying.kernel(), [(to, 0), (source, 0), size], copying.units(size))
            return [Task(launch, size < 4 * SMALL, size // 4, [source], [to])]
        reads, writes = [load.buffer for load in reads_of(entry)], writes_of(entry)
        if isinstance(entry, Nest):
            count = units(entry)
            if count == 0:
                return []
            arguments = arguments_of(entry)
            kernel = kernels.get(arguments.key)
            if kernel is None:
                kernel = kernels[arguments.key] = kernel_of(entry, arguments)
            work = prod(entry.space) * entry.work
            launch = Launch(kernel, arguments.words, count)
            return [Task(launch, count == 1 or work < SMALL, work, reads, writes)]
        if isinstance(entry, AddRows):
            columns = prod(entry.place.shape[1:])
            count = entry.places.buffer.size
            places = [place_of(load) for load in (entry.place, entry.rows, entry.places)]
            words = [*places, ("error", 0), count, columns, entry.place.shape[0]]
            work = count * columns
            launch = Launch(scatter.kernel(MEMORY[kind_of(entry.place.dtype)]), words, scatter.units(columns))
            return [Task(launch, work < SMALL, work, reads, writes)]
        if isinstance(entry, (Product, Native)):
            return self.operation(entry, reads, writes)
        if isinstance(entry, Chain):
            return self.chain(entry, reads, writes)
        return None

    def operation(self, entry: Product | Native, reads: list[Buffer], writes: list[Buffer]) -> list[Task]:
        """What has kernels of its own: products, convolutions and their like."""
        needed, work = self.products[id(entry)]
        if isinstance(entry, Native):
            loads, cost = {**entry.operands, **entry.results, "work": whole(work)}, entry.work
        else:
            loads, cost = operands_of(entry, work), prod(entry.place.shape) * entry.left.shape[-1]
        found = []
        for number, launch in enumerate(needed.launches, 1):
            only_packs = isinstance(entry, Product) and number < len(needed.launches)
            written = [work] if only_packs else [*writes, work]
            alone = launch.units == 1 or cost < 4 * SMALL
            found.append(Task(placed(launch, loads), alone, cost, [*reads, work], written))
        return found

    def chain(self, entry: Chain, reads: list[Buffer], writes: list[Buffer]) -> list[Task]:
        """What is packed for all, and one record in which each thread has parts of its own."""
        plan = self.chains[id(entry)]
        packing = [Task(launch, launch.units == 1, 0, reads, plan.work) for launch in plan.packing]
        nests = {id(each): self.tasks(each) for each in entry.entries if isinstance(each, Nest)}
        shares: list[list[tuple[Launch, int, int]]] = []
        for low, high in plan.shares:
            own: list[tuple[Launch, int, int]] = []
            for each in entry.entries:
                for task in nests.get(id(each)) or ():
                    count = task.launch.units // entry.rows
                    own.append((task.launch, low * count, high * count))
                own += [(launch, 0, launch.units) for launch in plan.launches.get((id(each), low), ())]
            shares.append(own)
        launch = Launch(sequence.kernel(), [], len(shares))
        return [*packing, Task(launch, False, 0, [*reads, *plan.work], [*writes, *plan.work], shares)]

    def range(self, buffer: Buffer) -> tuple[Any, int, int]:
        """The memory of a buffer: what it is a part of, and from where to where."""
        if buffer in self.offsets:
            start = self.offsets[buffer]
            return ("arena", start, start + max(buffer.size, 1) * buffer.dtype.itemsize)
        if buffer in self.final:
            return (id(self.final[buffer]._data), 0, 1)
        if buffer in self.replaced:
            return (id(self.replaced[buffer]._data), 0, 1)
        array = self.outside_arrays.get(buffer)
        return (buffer.number if array is None else id(array), 0, 1)

    # Running -----------------------------------------------------------------------------------------------

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs the program; outside tensors are changed in place."""
        if self.block is None:
            return self.run_in_borrowed_memory(inputs)
        for tensor, known in self.bound:
            if tensor._data is not known:
                self.bind()
                break
        outputs = [empty(shape, dtype) for shape, dtype in self.output_specs]
        self.pack(self.ids, 0, *map(id, inputs), *map(id, outputs))
        if self.enter(self.job_at):
            raise OutOfRange(OUT_OF_RANGE)
        if not self.short:
            self.run_long(inputs, outputs)
        return outputs

    def run_long(self, inputs: Sequence[np.ndarray], outputs: list[np.ndarray]) -> None:
        """What is left when arrays are bound."""
        if self.only_native is not None:
            for part in self.only_native:
                self.team.run(*part)
                if self.failed[0]:
                    self.refuse()
        else:
            self.run_segments(inputs, outputs)
            self.let_go()
        for tensor, buffer, result in self.copies:
            np.copyto(tensor._data, self.array(buffer) if result is None else result)

    def run_in_borrowed_memory(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        self.block = block = blocks.borrow(self.size)
        try:
            if block.base != self.base:
                self.commands.words[self.inside] += block.base - self.base
                self.base = block.base
            return Program.run(self, inputs)
        finally:
            self.block = None
            blocks.give_back(block)

    def refuse(self) -> None:
        """Nothing but the program's own memory has been written so far."""
        self.failed[0] = 0
        raise OutOfRange(OUT_OF_RANGE)

    def let_go(self) -> None:
        """Inputs and outputs belong to the caller: nothing here keeps them alive."""
        for buffer in (*self.plan.inputs, *self.plan.outputs):
            self.arrays.pop(buffer, None)

    def prepare(self) -> None:
        """What `run` needs at hand."""
        self.team = team()
        self.failed = memoryview(self.error)  # type: ignore[arg-type]
        self.output_specs = [(buffer.shape, buffer.dtype) for buffer in self.plan.outputs]
        self.arrays: dict[Buffer, np.ndarray] = dict(self.plan.constants)
        for buffer, array in self.plan.constants:
            self.commands.bind(buffer, address(array))
        self.bind()
        stays = self.block is not None  # and so does all that lies in it
        self.copies = [(t, b, self.array(b) if stays and b in self.offsets else None) for t, b in self.late]
        self.only_native = None
        if all(isinstance(segment, tuple) for segment in self.segments):
            self.only_native = [
                (self.commands.at + begin * RECORD * 8, count, threads)
                for (begin, count), threads in zip(self.segments, self.threads, strict=True)
            ]
        self.short = False
        self.make_job()
        if max(self.threads, default=1) == 1 and self.work < self.little:
            self.be_short()

    def make_job(self, fixed: int | None = None) -> None:
        """How arrays are bound that are others at every run: inputs, but for fixed ones, and outputs."""
        inputs, outputs = self.plan.inputs, self.plan.outputs
        held = [None] * (0 if fixed is None else len(inputs) - fixed)
        moving = [*inputs[:fixed], *held, *outputs]
        count = len(inputs) + len(outputs)
        self.job = Job(count, self.commands.moving(moving), self.error)
        self.ids, self.enter, self.job_at = self.job.ready()
        self.pack = struct.Struct(f"{count}q").pack_into
        if self.short:
            self.be_short()

    def be_short(self) -> None:
        """Has all of it be run by the call that binds arrays, on one thread, if it is nothing but kernels."""
        if self.only_native is None or self.copies or len(self.segments) > 2:
            return
        sizes = [count for _, count in self.segments]
        self.job.records(self.commands.at, sum(sizes[:1]), sum(sizes))
        self.short = True

    def forget_making(self, graph: Graph) -> None:
        """Gives up what was needed to make it: many small objects, which Python would look through for ever."""
        graph.calls = []
        self.entries, self.plan.statements, self.products, self.chains = [], [], {}, {}
        self.schedule.entries = []

    def fix(self, first: int, arrays: Sequence[np.ndarray]) -> None:
        """Inputs from a number on are these arrays at every run."""
        for number, array in enumerate(arrays, first):
            self.commands.bind(self.plan.inputs[number], address(array))
        self.make_job(first)

    def leave_to_owner(self, tensors: Sequence[Tensor]) -> None:
        """`run` looks no more where these are: whoever gives them other memory calls `bind`."""
        self.told = frozenset(map(id, tensors))
        self.bind()

    def bind(self) -> None:
        """Finds the outside tensors in memory."""
        followed: dict[int, tuple[Tensor, np.ndarray]] = {}  # each once, though it is read and written
        for buffer, tensor in (*self.plan.outside, *self.replaced.items(), *self.final.items()):
            self.arrays[buffer] = tensor._data
            if id(tensor) not in self.told:
                followed[id(tensor)] = (tensor, tensor._data)
            self.commands.bind(buffer, address(tensor._data))
        self.bound = list(followed.values())

    def run_segments(self, inputs: Sequence[np.ndarray], outputs: list[np.ndarray]) -> None:
        self.arrays.update(zip(self.plan.inputs, inputs, strict=True))
        self.arrays.update(zip(self.plan.outputs, outputs, strict=True))
        threads = iter(self.threads)
        for segment in self.segments:
            if isinstance(segment, tuple):
                begin, count = segment
                self.team.run(self.commands.at + begin * RECORD * 8, count, next(threads))
                if self.failed[0]:
                    self.let_go()
                    self.refuse()
            else:
                self.call(segment)

    def call(self, host: Host) -> None:
        operands = []
        for operand, given in zip(host.operands, host.call.operands, strict=True):
            if isinstance(operand, Load):
                operands.append(self.view(operand))
            elif isinstance(operand, Number):
                operands.append(np.full(given.spec.shape, operand.value, operand.dtype))
            else:
                operands.append(operand)
        result = host.call.op.run(*operands, **host.call.attrs)
        results = result if isinstance(result, (list, tuple)) else [result]
        for buffer, array in zip(host.results, results, strict=True):
            np.copyto(self.array(buffer), as_array(array))

    def array(self, buffer: Buffer) -> np.ndarray:
        """A buffer as an array."""
        if buffer in self.arrays:
            return self.arrays[buffer]
        assert self.block is not None
        start = self.base - address(self.block.memory) + self.offsets[buffer]
        size = buffer.size * buffer.dtype.itemsize
        return self.block.memory[start : start + size].view(buffer.dtype).reshape(buffer.shape)

    def view(self, load: Load) -> np.ndarray:
        """What a load reads, as an array."""
        array = self.array(load.buffer)
        strides = tuple(step * array.itemsize for step in load.strides)
        flat = np.lib.stride_tricks.as_strided(array, (1,) * max(array.ndim, 1), (0,) * max(array.ndim, 1))
        first = address(flat) + load.offset * array.itemsize
        interface = {
            "shape": load.shape,
            "strides": strides,
            "typestr": "|u1",
            "data": (first, False),
            "version": 3,
        }
        return typed(interface, array)


def product_launches(product: Product, threads: int, pack_first: bool = False) -> Launches:
    """How a product is computed."""
    *batch, m, n = product.place.shape
    k = product.left.shape[-1]
    rank = len(batch) + 2
    left, right, place = (
        (0,) * (rank - len(load.shape)) + load.strides
        for load in (product.left, product.right, product.place)
    )
    sizes = (batch, m, n, k, product.place.dtype, left, right, place, threads)
    if not product.adds:
        return gemm.product(*sizes, pack_first=pack_first)
    return gemm.product(*sizes, adding, "adding", [("place", 0), *place], pack_first=pack_first)


def adding(first: int) -> Callable[..., None]:
    """What happens to results that are added to what is there; their words are the place and its two strides."""

    def finish(code: Code, value: Val, batch: list[Val], row: Val, column: Val, width: int) -> None:
        words = [code.at(Val("%args", "ptr"), code.integer(first + k), "i64") for k in range(3)]
        pointer = code.load(words[0], "ptr")
        steps = [code.load(word, "i64") for word in words[1:]]
        element = element_of(value.type)
        start = code.add(code.mul(row, steps[0]), code.mul(column, steps[1]))
        where = code.at(pointer, start, element)
        code.store(code.add(code.load(where, value.type), value), where)

    return finish


class Task(NamedTuple):
    """A launch of a program, and what it touches."""

    launch: Launch
    alone: bool
    work: int  # about, in instructions for single elements; of chains it does not count
    reads: list[Buffer]
    writes: list[Buffer]
    shares: list[list[tuple[Launch, int, int]]] | None = (
        None  # of a chain, by thread: launches, from unit to unit
    )


class FinalCopy(NamedTuple):
    """A result that is copied to where it belongs when all else is done."""

    to: Load
    source: Load


def whole(buffer: Buffer) -> Load:
    return Load(buffer, buffer.shape, buffer.strides, 0, ())


class Touched:
    """The memory that kernels since the last barrier read and wrote."""

    def __init__(self, range_of: Callable[[Buffer], tuple[Any, int, int]]) -> None:
        self.range_of = range_of
        self.forget()

    def forget(self) -> None:
        self.read: dict[Any, list[tuple]] = {}  # by what memory is a part of
        self.written: dict[Any, list[tuple]] = {}

    def conflicts(self, reads: list[Buffer], writes: list[Buffer]) -> bool:
        """Whether a kernel must wait for those before it; if so, they count as finished."""
        read, written = (
            [self.range_of(buffer) for buffer in dict.fromkeys(some)] for some in (reads, writes)
        )
        waits = met(self.written, (*read, *written)) or met(self.read, written)
        if waits:
            self.forget()
        for table, places in ((self.read, read), (self.written, written)):
            for place in places:
                table.setdefault(place[0], []).append(place)
        return waits


def typed(interface: dict, owner: np.ndarray) -> np.ndarray:
    """An array at an address, which keeps the owner of the memory alive."""
    interface["typestr"] = owner.dtype.str if owner.dtype.kind != "V" else f"|V{owner.itemsize}"
    holder = ArrayAt(interface, owner)
    array = np.asarray(holder)
    return array if array.dtype == owner.dtype else array.view(owner.dtype)


class ArrayAt:
    """ArrayAt at an address, as NumPy's array interface describes it."""

    def __init__(self, interface: dict, owner: np.ndarray) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def met(known: dict[Any, list[tuple]], places: Sequence[tuple]) -> bool:
    """Whether one of these places has a part in common with what is known."""
    for whole, start, end in places:
        for _, first, last in known.get(whole, ()):
            if first < end and start < last:
                return True
    return False
