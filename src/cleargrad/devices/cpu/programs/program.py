"""A program: records of kernels over one block of memory, run by one native call (or a few, around host
calls).

`Program(graph)` compiles a recorded graph; `run` binds inputs and outside tensors by reference, runs, and
gives back the outputs. What outside tensors become is in their memory afterwards. Read next:
devices/cpu/programs/loops.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cleargrad.core.pace import give_way
from cleargrad.core.tensor import Tensor, as_array
from cleargrad.devices.cpu.kernels import add_rows as scatter
from cleargrad.devices.cpu.kernels import copying, gemm, sequence
from cleargrad.devices.cpu.llvm.jit import Kernel, addresses
from cleargrad.devices.cpu.llvm.text import Code, Val, element_of
from cleargrad.devices.cpu.programs import blocks
from cleargrad.devices.cpu.programs.chains import Chain, ChainPlan, grouped, operands_of, planned
from cleargrad.devices.cpu.programs.loops import MEMORY, kernel_of
from cleargrad.devices.cpu.programs.signature import structure, units
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
kernels: dict[str, Kernel] = {}  # by structure, for all programs

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
        self.products: dict[int, tuple[gemm.Steps, Buffer]] = {}
        self.chains: dict[int, ChainPlan] = {}
        for position, entry in enumerate(self.entries):
            if isinstance(entry, Chain):
                found = self.chains[id(entry)] = planned(entry, team().threads, product_steps)
                spans.update(dict.fromkeys(found.work, (position, position)))
            if isinstance(entry, (Product, Native)):
                threads = team().threads
                needed = (
                    entry.choose(threads=threads)
                    if isinstance(entry, Native)
                    else product_steps(entry, threads)
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
        words: list[int] = []
        records: list[list[int]] = []
        self.work = 0  # of all kernels, about
        self.final: dict[Buffer, Any] = {}  # outside tensors to which results are copied by the last kernels
        patches: dict[Buffer, list[tuple[int, int]]] = {}
        chosen: list[Kernel] = []
        self.error = np.zeros(1, np.int64)
        self.calls_at: list[tuple[int, int]] = []
        self.inside: list[int] = []  # where the words are that point into the program's block
        touched = Touched(self.range)
        inner: list[list[int]] = []  # the calls of chains
        placed: dict[int, tuple[list, int]] = {}  # arguments, which threads may share, and where they are
        begin = 0

        def note(kernel: Kernel) -> int:
            chosen.append(kernel)
            return len(chosen) - 1

        def put(arguments: list[Any]) -> int:
            if id(arguments) not in placed:
                placed[id(arguments)] = (arguments, len(words))
                for word in arguments:
                    known = type(word) is int
                    words.append(word if known else self.word(word, len(words), patches))
            return placed[id(arguments)][1]

        def close() -> None:
            nonlocal begin
            if len(records) > begin:
                self.segments.append((begin, len(records) - begin))
            begin = len(records)
            touched.forget()

        copies = self.final_copies()
        for position, entry in enumerate([*self.entries, *copies]):
            give_way()
            launches = self.launches(entry)
            if launches is None:
                close()
                self.segments.append(entry)
                continue
            for launch in launches:
                waits = touched.conflicts(launch.reads, launch.writes) or isinstance(entry, FinalCopy)
                flags = WAIT if waits else 0
                self.work += launch.work
                arguments = launch.words
                if launch.calls is not None:
                    arguments = []
                    for calls in launch.calls:
                        arguments += [("calls", len(inner)), len(calls)]
                        inner += [[note(call.kernel), put(call.words), *call.units] for call in calls]
                record = [note(launch.kernel), put(arguments), launch.units]
                records.append([*record, flags | (ALONE if launch.alone else 0)])
            if position == self.sure - 1:
                close()  # what comes after writes tensors from outside, and must not run if this fails
        close()
        self.finish_records(words, records, chosen, inner)
        self.patches = patches

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

    def launches(self, entry: Any) -> list[Launch] | None:
        """The kernels of an entry; None if the host must run it."""
        if isinstance(entry, FinalCopy):
            to, source = entry.to.buffer, entry.source.buffer
            size = source.size * source.dtype.itemsize
            words = [("address", entry.to), ("address", entry.source), size]
            units_ = copying.units(size)
            return [Launch(copying.kernel(), words, units_, size < 4 * SMALL, size // 4, [source], [to])]
        reads, writes = [load.buffer for load in reads_of(entry)], writes_of(entry)
        if isinstance(entry, Nest):
            count = units(entry)
            if count == 0:
                return []
            arguments = structure(entry)
            kernel = kernels.get(arguments.key)
            if kernel is None:
                kernel = kernels[arguments.key] = kernel_of(entry, arguments)
            work = prod(entry.space) * entry.work
            return [Launch(kernel, arguments.words, count, count == 1 or work < SMALL, work, reads, writes)]
        if isinstance(entry, AddRows):
            columns = prod(entry.place.shape[1:])
            count = entry.places.buffer.size
            words = [
                *(("address", load) for load in (entry.place, entry.rows, entry.places)),
                ("error", None), count, columns, entry.place.shape[0],
            ]  # fmt: skip
            work = count * columns
            kernel = scatter.kernel(MEMORY[kind_of(entry.place.dtype)])
            return [Launch(kernel, words, scatter.units(columns), work < SMALL, work, reads, writes)]
        if isinstance(entry, Product):
            return self.product(entry, reads, writes)
        if isinstance(entry, Native):
            return self.native(entry, reads, writes)
        if isinstance(entry, Chain):
            return self.chain(entry, reads, writes)
        return None

    def chain(self, entry: Chain, reads: list[Buffer], writes: list[Buffer]) -> list[Launch]:
        """What is packed for all, and one record in which each thread has calls of its own."""
        plan = self.chains[id(entry)]
        packing = [
            Launch(step.kernel, addressed(step, loads), step.units, step.units == 1, 0, reads, plan.work)
            for step, loads in plan.packing
        ]
        nests = {id(each): self.launches(each) for each in entry.entries if isinstance(each, Nest)}
        calls: list[list[Call]] = []
        for low, high in plan.shares:
            own: list[Call] = []
            for each in entry.entries:
                for launch in nests.get(id(each)) or ():
                    count = launch.units // entry.rows
                    own.append(Call(launch.kernel, launch.words, (low * count, high * count)))
                for step, loads in plan.steps.get((id(each), low), ()):
                    own.append(Call(step.kernel, addressed(step, loads), (0, step.units)))
            calls.append(own)
        whole = Launch(
            sequence.kernel(), [], len(calls), False, 0, [*reads, *plan.work], [*writes, *plan.work], calls
        )
        return [*packing, whole]

    def native(self, entry: Native, reads: list[Buffer], writes: list[Buffer]) -> list[Launch]:
        needed, work = self.products[id(entry)]
        loads = {**entry.operands, **entry.results, "work": Load(work, (1,), (0,), 0, ())}
        alone = entry.work < 4 * SMALL
        found = []
        for step in needed.steps:
            words = []
            for word in step.words:
                if isinstance(word, tuple):
                    word = ("error", None) if word[0] == "error" else ("address", loads[word[0]], word[1])
                words.append(word)
            alone_ = alone or step.units == 1
            found.append(
                Launch(step.kernel, words, step.units, alone_, entry.work, [*reads, work], [*writes, work])
            )
        return found

    def product(self, entry: Product, reads: list[Buffer], writes: list[Buffer]) -> list[Launch]:
        needed, work = self.products[id(entry)]
        loads = operands_of(entry, work)
        found = []
        for number, step in enumerate(needed.steps):
            words = addressed(step, loads)
            written = writes if number == len(needed.steps) - 1 else [work]
            cost = prod(entry.place.shape) * entry.left.shape[-1]
            alone = step.units == 1 or cost < 4 * SMALL
            found.append(Launch(step.kernel, words, step.units, alone, cost, [*reads, work], written))
        return found

    def finish_records(
        self, words: list[int], records: list[list[int]], chosen: list[Kernel], inner: list[list[int]]
    ) -> None:
        """Puts addresses into the records."""
        self.words = np.array(words, np.int64)
        found = addresses(chosen)
        base = address(self.words)
        calls = [[found[k], base + 8 * start, low, high] for k, start, low, high in inner]
        self.calls = np.array(calls, np.int64).reshape(-1, sequence.CALL)
        for position, first in self.calls_at:
            self.words[position] = address(self.calls) + 8 * sequence.CALL * first
        rows = [[found[k], base + 8 * start, count, flags] for k, start, count, flags in records]
        self.records = np.array(rows, np.int64).reshape(-1, RECORD)
        self.records_at = address(self.records)
        self.threads = [
            2 if any(not flags & ALONE for *_, flags in rows[begin : begin + count]) else 1
            for begin, count in [s for s in self.segments if isinstance(s, tuple)]
        ]

    def word(self, word: Any, position: int, patches: dict) -> int:
        """An argument as an integer; addresses that are bound later are noted."""
        if not isinstance(word, tuple):
            return int(word)
        kind, load, *more = word
        if kind == "error":
            return address(self.error)
        if kind == "calls":
            self.calls_at.append((position, load))
            return 0
        shift = load.offset * load.dtype.itemsize + sum(more)
        place = self.offsets.get(load.buffer)
        if place is None:
            patches.setdefault(load.buffer, []).append((position, shift))
            return 0
        self.inside.append(position)
        return self.base + place + shift

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
                self.words[self.inside] += block.base - self.base
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
        self.slots = memoryview(self.words)  # type: ignore[arg-type]
        self.failed = memoryview(self.error)  # type: ignore[arg-type]
        self.output_specs = [(buffer.shape, buffer.dtype) for buffer in self.plan.outputs]
        self.arrays: dict[Buffer, np.ndarray] = dict(self.plan.constants)
        for buffer, array in self.plan.constants:
            self.patch(buffer, array)
        self.bind()
        stays = self.block is not None  # and so does all that lies in it
        self.copies = [(t, b, self.array(b) if stays and b in self.offsets else None) for t, b in self.late]
        self.only_native = None
        if all(isinstance(segment, tuple) for segment in self.segments):
            self.only_native = [
                (self.records_at + begin * RECORD * 8, count, threads)
                for (begin, count), threads in zip(self.segments, self.threads, strict=True)
            ]
        self.short = False
        self.make_job()
        if max(self.threads, default=1) == 1 and self.work < self.little:
            self.be_short()

    def make_job(self, fixed: int | None = None) -> None:
        """How arrays are bound that are others at every run: inputs, but for fixed ones, and outputs."""
        inputs, outputs = self.plan.inputs, self.plan.outputs
        moving = [*enumerate(inputs[:fixed]), *enumerate(outputs, len(inputs))]
        base = address(self.words)
        patches = [
            (number, base + 8 * position, shift)
            for number, buffer in moving
            for position, shift in self.patches.get(buffer, ())
        ]
        count = len(inputs) + len(outputs)
        self.job = Job(count, patches, self.error)
        self.ids, self.enter, self.job_at = self.job.ready()
        self.pack = struct.Struct(f"{count}q").pack_into
        if self.short:
            self.be_short()

    def be_short(self) -> None:
        """Has all of it be run by the call that binds arrays, on one thread, if it is nothing but kernels."""
        if self.only_native is None or self.copies or len(self.segments) > 2:
            return
        sizes = [count for _, count in self.segments]
        self.job.records(self.records_at, sum(sizes[:1]), sum(sizes))
        self.short = True

    def forget_making(self, graph: Graph) -> None:
        """Gives up what was needed to make it: many small objects, which Python would look through for ever."""
        graph.calls = []
        self.entries, self.plan.statements, self.products, self.chains = [], [], {}, {}
        self.schedule.entries = []

    def fix(self, first: int, arrays: Sequence[np.ndarray]) -> None:
        """Inputs from a number on are these arrays at every run."""
        for number, array in enumerate(arrays, first):
            self.patch(self.plan.inputs[number], array)
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
            self.patch(buffer, tensor._data)
        self.bound = list(followed.values())

    def patch(self, buffer: Buffer, array: np.ndarray) -> None:
        for position, shift in self.patches.get(buffer, ()):
            self.slots[position] = address(array) + shift

    def run_segments(self, inputs: Sequence[np.ndarray], outputs: list[np.ndarray]) -> None:
        self.arrays.update(zip(self.plan.inputs, inputs, strict=True))
        self.arrays.update(zip(self.plan.outputs, outputs, strict=True))
        threads = iter(self.threads)
        for segment in self.segments:
            if isinstance(segment, tuple):
                begin, count = segment
                self.team.run(self.records_at + begin * RECORD * 8, count, next(threads))
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


def addressed(step: gemm.Step, loads: dict[str, Load]) -> list[Any]:
    """The words of a step, with loads in the place of their names."""
    return [("address", loads[word[0]], word[1]) if isinstance(word, tuple) else word for word in step.words]


def product_steps(product: Product, threads: int, pack_first: bool = False) -> gemm.Steps:
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
        return gemm.steps(*sizes, pack_first=pack_first)
    return gemm.steps(*sizes, adding, "adding", [("place", 0), *place], pack_first=pack_first)


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


@dataclass
class Launch:
    """One kernel with its arguments, and what it touches."""

    kernel: Kernel
    words: list[Any]
    units: int
    alone: bool
    work: int  # about, in instructions for single elements; of chains it does not count
    reads: list[Buffer]
    writes: list[Buffer]
    calls: list[list[Call]] | None = None  # of a chain, by thread


class FinalCopy(NamedTuple):
    """A result that is copied to where it belongs when all else is done."""

    to: Load
    source: Load


def whole(buffer: Buffer) -> Load:
    return Load(buffer, buffer.shape, buffer.strides, 0, ())


class Call(NamedTuple):
    """A kernel, for some of its units."""

    kernel: Kernel
    words: list[Any]
    units: tuple[int, int]


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
    holder = Memory(interface, owner)
    array = np.asarray(holder)
    return array if array.dtype == owner.dtype else array.view(owner.dtype)


class Memory:
    """Memory at an address, as NumPy's array interface describes it."""

    def __init__(self, interface: dict, owner: np.ndarray) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def met(known: dict[Any, list[tuple]], places: Sequence[tuple]) -> bool:
    """Whether one of these places has a part in common with what is known."""
    for whole, start, end in places:
        for _, first, last in known.get(whole, ()):
            if first < end and start < last:
                return True
    return False
