"""The threads that run machine code: a list of kernels goes in, one native call runs it on all of them.

The list is an array of records (RECORD int64 each): kernel, arguments, number of work units, flags. Every thread
walks the same list and takes its share of each kernel's units; a barrier stands only where a record asks for one.
Between calls the threads wait: some microseconds awake, for a training loop that comes right back, then asleep. The
walk, the barrier and the waiting are machine code themselves. Read next: compile/__init__.py.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache

import numpy as np

from cleargrad.codegen.jit import Kernel, addresses, host
from cleargrad.codegen.llvm_text import Code, Val

RECORD = 4
WAIT = 1  # flag: everything before this record is finished first, by all threads
ALONE = 2  # flag: one thread takes all units

SCRATCH = 1 << 22  # bytes of each thread's own memory

# The team's memory by int64; what different threads write lies on different cache lines.
EPOCH, LIST, LENGTH, THREADS = 0, 1, 2, 3
ARRIVED, PHASE, ASLEEP = 8, 16, 24
MUTEX, CONDITION, WORDS = 32, 48, 64

RUN, WORK, PREPARE = 0, 1, 2  # what the native function is asked to do

AWAKE = 20_000  # how often an idle thread looks for work before it sleeps
PATIENCE = 4_000  # how often a thread looks at a barrier before it lets others run

PARAMETERS = [Val("%team", "ptr"), Val("%number", "i64"), Val("%job", "i64"), Val("%scratch", "ptr")]


class TeamCode(Code):
    """Machine code for what threads do together."""

    def word(self, index: int) -> Val:
        return self.at(PARAMETERS[0], self.integer(index), "i64")

    def see(self, place: Val) -> Val:
        """What another thread wrote, with all that it wrote before."""
        return self.now("i64", f"load atomic i64, ptr {place.name} seq_cst, align 8")

    def show(self, value: Val, place: Val) -> None:
        self.do(f"store atomic {value}, ptr {place.name} seq_cst, align 8")

    def count_up(self, place: Val, by: int = 1) -> Val:
        """Adds to a shared number; the result is what it was."""
        return self.now("i64", f"atomicrmw add ptr {place.name}, i64 {by} seq_cst")

    def library(self, function: str, *operands: Val) -> None:
        """A call into the C library."""
        self.declared.add(f"declare i32 @{function}({', '.join(x.type for x in operands)})")
        self.do(f"call i32 @{function}({', '.join(map(str, operands))})")

    def pause(self) -> None:
        features = host()[1].split(",")
        if "+sse2" in features:
            self.declared.add("declare void @llvm.x86.sse2.pause()")
            self.do("call void @llvm.x86.sse2.pause()")
        elif "+neon" in features:
            self.do('call void asm sideeffect "yield", ""()')

    def barrier(self, threads: Val) -> None:
        """Nobody goes on before all are here."""
        phase = self.see(self.word(PHASE))
        place = self.now("i64", f"add {self.count_up(self.word(ARRIVED))}, 1")
        last = self.now("i1", f"icmp eq {place}, {threads.name}")
        with self.when(last):
            self.show(self.integer(0), self.word(ARRIVED))
            self.show(self.now("i64", f"add {phase}, 1"), self.word(PHASE))
        turns = self.slot("i64", self.integer(0))
        with self.forever() as done:
            self.leave(self.now("i1", f"icmp ne {self.see(self.word(PHASE))}, {phase.name}"), done)
            self.pause()
            turn = self.now("i64", f"add {self.get(turns, 'i64')}, 1")
            self.set(turns, turn)
            with self.when(self.now("i1", f"icmp sgt {turn}, {PATIENCE}")):
                self.library("sched_yield")

    def walk(self) -> None:
        """One thread's way through the list."""
        _, number, _, scratch = PARAMETERS
        threads = self.see(self.word(THREADS))
        records = self.now("ptr", f"inttoptr {self.see(self.word(LIST))} to ptr")
        several = self.now("i1", f"icmp sgt {threads}, 1")
        with self.loop(self.integer(0), self.see(self.word(LENGTH))) as index:
            record = self.at(records, self.mul(index, self.integer(RECORD)), "i64")
            kernel, arguments, units, flags = (
                self.load(self.at(record, self.integer(field), "i64"), "i64") for field in range(RECORD)
            )
            waits = self.now("i1", f"trunc {flags} to i1")
            with self.when(self.now("i1", f"and {waits}, {several.name}")):
                self.barrier(threads)
            alone = self.now("i1", f"icmp sge {flags}, {ALONE}")
            below, above = (
                self.share(units, threads, x) for x in (number, self.add(number, self.integer(1)))
            )
            is_first = self.now("i1", f"icmp eq {number}, 0")
            own = self.now("i64", f"select {is_first}, {units}, i64 0")
            start = self.now("i64", f"select {alone}, i64 0, {below}")
            stop = self.now("i64", f"select {alone}, {own}, {above}")
            with self.when(self.now("i1", f"icmp slt {start}, {stop.name}")):
                function = self.now("ptr", f"inttoptr {kernel} to ptr")
                where = self.now("ptr", f"inttoptr {arguments} to ptr")
                self.do(f"call void {function.name}({where}, {start}, {stop}, {scratch})")
        with self.when(several):
            self.barrier(threads)

    def share(self, units: Val, threads: Val, number: Val) -> Val:
        return self.now("i64", f"udiv {self.mul(units, number)}, {threads.name}")

    def run(self) -> None:
        """The caller's part: wakes the others and walks with them."""
        several = self.now("i1", f"icmp sgt {self.see(self.word(THREADS))}, 1")
        with self.when(several):
            self.count_up(self.word(EPOCH))
            with self.when(self.now("i1", f"icmp ne {self.see(self.word(ASLEEP))}, 0")):
                self.library("pthread_mutex_lock", self.word(MUTEX))
                self.library("pthread_cond_broadcast", self.word(CONDITION))
                self.library("pthread_mutex_unlock", self.word(MUTEX))
        self.walk()

    def work(self) -> None:
        """A worker's life: wait for a new epoch, walk, again. It ends with the process."""
        seen = self.slot("i64", self.integer(0))  # a list may have come before this thread began
        turns = self.slot("i64")
        with self.forever():
            known = self.get(seen, "i64")
            self.set(turns, self.integer(0))
            with self.forever() as news:
                self.leave(self.now("i1", f"icmp ne {self.see(self.word(EPOCH))}, {known.name}"), news)
                self.pause()
                turn = self.now("i64", f"add {self.get(turns, 'i64')}, 1")
                self.set(turns, turn)
                self.leave(self.now("i1", f"icmp sgt {turn}, {AWAKE}"), news)
            self.sleep_until_news(known)
            self.set(seen, self.see(self.word(EPOCH)))
            self.walk()

    def sleep_until_news(self, known: Val) -> None:
        same = self.now("i1", f"icmp eq {self.see(self.word(EPOCH))}, {known.name}")
        with self.when(same):
            self.library("pthread_mutex_lock", self.word(MUTEX))
            self.count_up(self.word(ASLEEP))
            with self.forever() as news:
                self.leave(self.now("i1", f"icmp ne {self.see(self.word(EPOCH))}, {known.name}"), news)
                self.library("pthread_cond_wait", self.word(CONDITION), self.word(MUTEX))
            self.count_up(self.word(ASLEEP), -1)
            self.library("pthread_mutex_unlock", self.word(MUTEX))

    def prepare(self) -> None:
        self.library("pthread_mutex_init", self.word(MUTEX), Val("null", "ptr"))
        self.library("pthread_cond_init", self.word(CONDITION), Val("null", "ptr"))


@cache
def way_in():
    """The native function `(team, number, job, scratch)`; ctypes lets go of Python's lock while it runs."""
    code = TeamCode()
    for job, body in ((PREPARE, code.prepare), (WORK, code.work), (RUN, code.run)):
        with code.when(code.now("i1", f"icmp eq {PARAMETERS[2]}, {job}")):
            body()
    code.do("ret void")
    kernel = Kernel(code.function("kernel", PARAMETERS), tuple(code.declared))
    shape = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    return shape(addresses([kernel])[0])


class Team:
    """The calling thread and its workers."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.memory = np.zeros(WORDS + 8, np.int64)
        words = aligned(self.memory)
        self.words = memoryview(words)
        self.address = words.ctypes.data
        self.scratch = [np.empty(SCRATCH + 64, np.uint8) for _ in range(threads)]
        self.scratch_at = [block.ctypes.data + -block.ctypes.data % 64 for block in self.scratch]
        self.lock = threading.Lock()  # one list at a time, whoever calls
        self.enter = way_in()
        self.enter(self.address, 0, PREPARE, None)
        for number in range(1, threads):
            threading.Thread(target=self.work, args=(number,), name="cleargrad", daemon=True).start()

    def work(self, number: int) -> None:
        """A worker's life. That it is a method keeps the team's memory alive as long as the thread."""
        self.enter(self.address, number, WORK, self.scratch_at[number])

    def run(self, records: int, length: int, threads: int) -> None:
        """Runs a list of records, by all threads or, for a short one, by the caller alone."""
        with self.lock:
            words = self.words
            words[LIST], words[LENGTH] = records, length
            words[THREADS] = self.threads if threads > 1 else 1
            self.enter(self.address, 0, RUN, self.scratch_at[0])


def aligned(memory: np.ndarray) -> np.ndarray:
    """The part of an array of int64 that begins with a cache line."""
    return memory[-memory.ctypes.data % 64 // 8 :]


_team: list[Team] = []
_wanted = [0]


def team() -> Team:
    """This process's team, made when it is first needed."""
    if not _team:
        _team.append(Team(_wanted[0] or len(os.sched_getaffinity(0))))
    return _team[0]


os.register_at_fork(after_in_child=_team.clear)  # a child has none of its parent's threads
