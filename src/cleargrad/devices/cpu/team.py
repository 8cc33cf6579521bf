"""The threads that run machine code: a list of kernels goes in, one native call runs it on all of them.

The list is an array of records (RECORD int64 each): kernel, arguments, number of work units, flags. Every
thread walks the same list. A record's units are cut into a few parts, and a thread takes its own parts first and
then those that nobody has taken: on a busy machine, where a worker may not get a processor for a while, the
others do its work and nobody waits for it. Where a record says so, the walk goes on when all parts before it are
done. Between calls the threads wait: some microseconds awake, for a training loop that comes right back, then
asleep. All of this is machine code itself. Read next: compile/__init__.py.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache

import numpy as np

from cleargrad.core.address import address, lined_up
from cleargrad.devices.cpu.llvm.jit import Kernel, addresses, host
from cleargrad.devices.cpu.llvm.text import Code, Val
from cleargrad.threads import chosen

RECORD = 4
WAIT = 1  # flag: everything before this record is finished first, by all threads
ALONE = 2  # flag: one thread takes all units

SCRATCH = 1 << 22  # bytes of each thread's own memory

# The team's memory by int64; what different threads write lies on different cache lines.
EPOCH, LIST, LENGTH, THREADS, CLAIMS, DONE = 0, 1, 2, 3, 4, 5
DOOR, INSIDE, ASLEEP = 8, 16, 24  # the epoch that may be entered, how many workers are in it, how many sleep
MUTEX, CONDITION, WORDS = 32, 48, 64

RUN, WORK, PREPARE = 0, 1, 2  # what the native function is asked to do

PARTS = 16  # a record's units are cut into at most so many parts, two for each thread
AWAKE = 20_000  # how often an idle thread looks for work before it sleeps
PATIENCE = 4_000  # how often a thread looks for the others to be done before it lets somebody run

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

    def exchange(self, place: Val, old: Val, new: Val) -> Val:
        """Writes `new` if the place still holds `old`; whether it did."""
        pair = "{ i64, i1 }"
        instruction = f"cmpxchg ptr {place.name}, {old}, {new} seq_cst seq_cst, align 8"
        done = self.now(pair, instruction)
        return self.now("i1", f"extractvalue {done}, 1")

    def wait_until(self, place: Val, predicate: str, wanted: Val) -> None:
        """Goes on when a shared number is as wanted."""
        turns = self.slot("i64", self.integer(0))
        with self.forever() as done:
            self.leave(self.now("i1", f"icmp {predicate} {self.see(place)}, {wanted.name}"), done)
            self.pause()
            turn = self.now("i64", f"add {self.get(turns, 'i64')}, 1")
            self.set(turns, turn)
            with self.when(self.now("i1", f"icmp sgt {turn}, {PATIENCE}")):
                self.library("sched_yield")

    def walk_alone(self) -> None:
        """The list by one thread, without a look at anybody."""
        scratch = PARAMETERS[3]
        records = self.now("ptr", f"inttoptr {self.see(self.word(LIST))} to ptr")
        with self.loop(self.integer(0), self.see(self.word(LENGTH))) as index:
            kernel, arguments, units, _ = self.record(records, index)
            self.launch(kernel, arguments, self.integer(0), units, scratch)

    def walk(self, epoch: Val) -> None:
        """One thread's way through the list, together with others."""
        _, number, _, scratch = PARAMETERS
        threads = self.see(self.word(THREADS))
        records, claims, done = (
            self.now("ptr", f"inttoptr {self.see(self.word(word))} to ptr") for word in (LIST, CLAIMS, DONE)
        )
        double = self.mul(threads, self.integer(2))
        most = self.now("i64", f"call i64 @llvm.smin.i64({double}, i64 {PARTS})")
        self.declared.add("declare i64 @llvm.smin.i64(i64, i64)")
        phase, expected = self.slot("i64", self.integer(0)), self.slot("i64", self.integer(0))
        with self.loop(self.integer(0), self.see(self.word(LENGTH))) as index:
            kernel, arguments, units, flags = self.record(records, index)
            with self.when(self.now("i1", f"trunc {flags} to i1")):
                now = self.get(phase, "i64")
                self.wait_until(self.at(done, now, "i64"), "eq", self.get(expected, "i64"))
                self.set(phase, self.now("i64", f"add {now}, 1"))
                self.set(expected, self.integer(0))
            alone = self.now("i1", f"icmp sge {flags}, {ALONE}")
            cut = self.now("i64", f"call i64 @llvm.smin.i64({units}, {most})")
            parts = self.now("i64", f"select {alone}, i64 1, {cut}")
            self.set(expected, self.now("i64", f"add {self.get(expected, 'i64')}, {parts.name}"))
            finished = self.at(done, self.get(phase, "i64"), "i64")
            # A thread's parts are the same ones of every record: what it wrote of one is near when it reads it.
            first = self.now("i64", f"udiv {self.mul(number, parts)}, {threads.name}")
            with self.loop(self.integer(0), parts) as turn:
                part = self.now("i64", f"urem {self.now('i64', f'add {first}, {turn.name}')}, {parts.name}")
                claim = self.at(claims, self.add(self.mul(index, self.integer(PARTS)), part), "i64")
                taken = self.see(claim)
                free = self.now("i1", f"icmp ne {taken}, {epoch.name}")
                with self.when(free), self.when(self.exchange(claim, taken, epoch)):
                    after = self.now("i64", f"add {part}, 1")
                    start, stop = (
                        self.now("i64", f"udiv {self.now('i64', f'mul {units}, {x.name}')}, {parts.name}")
                        for x in (part, after)
                    )
                    self.launch(kernel, arguments, start, stop, scratch)
                    self.count_up(finished)
        self.wait_until(self.at(done, self.get(phase, "i64"), "i64"), "eq", self.get(expected, "i64"))

    def record(self, records: Val, index: Val) -> tuple[Val, ...]:
        place = self.at(records, self.mul(index, self.integer(RECORD)), "i64")
        return tuple(self.load(self.at(place, self.integer(field), "i64"), "i64") for field in range(RECORD))

    def launch(self, kernel: Val, arguments: Val, start: Val, stop: Val, scratch: Val) -> None:
        function = self.now("ptr", f"inttoptr {kernel} to ptr")
        where = self.now("ptr", f"inttoptr {arguments} to ptr")
        self.do(f"call void {function.name}({where}, {start}, {stop}, {scratch})")

    def run(self) -> None:
        """The caller's part: alone, or with those whom it wakes."""
        threads = self.see(self.word(THREADS))
        with self.when(self.now("i1", f"icmp sle {threads}, 1")):
            self.walk_alone()
        with self.when(self.now("i1", f"icmp sgt {threads}, 1")):
            done = self.now("ptr", f"inttoptr {self.see(self.word(DONE))} to ptr")
            with self.loop(self.integer(0), self.add(self.see(self.word(LENGTH)), self.integer(1))) as index:
                self.store(self.integer(0), self.at(done, index, "i64"))
            epoch = self.now("i64", f"add {self.see(self.word(EPOCH))}, 1")
            self.show(epoch, self.word(DOOR))
            self.show(epoch, self.word(EPOCH))
            with self.when(self.now("i1", f"icmp ne {self.see(self.word(ASLEEP))}, 0")):
                self.library("pthread_mutex_lock", self.word(MUTEX))
                self.library("pthread_cond_broadcast", self.word(CONDITION))
                self.library("pthread_mutex_unlock", self.word(MUTEX))
            self.walk(epoch)
            self.show(self.integer(0), self.word(DOOR))
            self.wait_until(self.word(INSIDE), "eq", self.integer(0))

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
            epoch = self.see(self.word(EPOCH))
            self.set(seen, epoch)
            # Who comes too late finds the door shut: the list may be gone.
            self.count_up(self.word(INSIDE))
            asked = self.now("i1", f"icmp slt {PARAMETERS[1]}, {self.see(self.word(THREADS)).name}")
            open = self.now("i1", f"icmp eq {self.see(self.word(DOOR))}, {epoch.name}")
            with self.when(asked), self.when(open):
                self.walk(epoch)
            self.count_up(self.word(INSIDE), -1)

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

    def __init__(self, size: int) -> None:
        self.size = size  # threads at most
        self.make_ready()

    @property
    def threads(self) -> int:
        """How many threads compute now: what set_num_threads was told, or all."""
        return min(self.size, chosen[0]) if chosen else self.size

    def make_ready(self) -> None:
        """Memory and locks that nobody has used, and no workers yet."""
        words = lined_up(8 * WORDS).view(np.int64)
        words[:] = 0
        self.words = memoryview(words)  # type: ignore[arg-type]
        self.address = address(words)
        self.scratch: list[np.ndarray] = []
        self.scratch_at: list[int] = []
        self.lock = threading.Lock()  # one list at a time, whoever calls
        self.make_room(1024)
        self.enter = way_in()
        self.enter(self.address, 0, PREPARE, None)
        self.add_scratch()
        # Made once: to make such objects of numbers takes a third of a call that does little.
        self.caller = (
            ctypes.c_void_p(self.address),
            ctypes.c_int64(0),
            ctypes.c_int64(RUN),
            ctypes.c_void_p(self.scratch_at[0]),
        )

    def add_scratch(self) -> None:
        """Memory for one more thread."""
        self.scratch.append(lined_up(SCRATCH))
        self.scratch_at.append(address(self.scratch[-1]))

    def hire(self, threads: int) -> None:
        """Starts workers until there are so many threads, the caller among them."""
        for number in range(len(self.scratch), threads):
            self.add_scratch()
            threading.Thread(target=self.work, args=(number,), name="cleargrad", daemon=True).start()

    def stay_alone(self) -> None:
        """In a forked child: programs of the parent's still hold this team, but its threads are not there."""
        self.size = 1
        self.make_ready()

    def work(self, number: int) -> None:
        """A worker's life. That it is a method keeps the team's memory alive as long as the thread."""
        self.enter(self.address, number, WORK, self.scratch_at[number])

    def make_room(self, length: int) -> None:
        """Memory for who has taken which part of a record, and for how many parts are done."""
        self.room = length
        self.claims, self.done = np.zeros(length * PARTS, np.int64), np.zeros(length + 1, np.int64)
        self.words[CLAIMS], self.words[DONE] = address(self.claims), address(self.done)

    def run(self, records: int, length: int, threads: int) -> None:
        """Runs a list of records, by all threads or, for a short one, by the caller alone."""
        with self.lock:
            words = self.words
            if length > self.room:
                self.make_room(2 * length)
            words[LIST], words[LENGTH] = records, length
            words[THREADS] = threads = self.threads if threads > 1 else 1
            if threads > len(self.scratch):
                self.hire(threads)
            self.enter(*self.caller)


_team: list[Team] = []
_making = threading.Lock()


def team() -> Team:
    """This process's team, made when it is first needed."""
    if not _team:
        with _making:
            if not _team:
                _team.append(Team(len(os.sched_getaffinity(0))))
    return _team[0]


def part() -> None:
    """In a forked child: it has none of its parent's threads, and makes a team of its own when it needs one."""
    global _making
    _making = threading.Lock()
    for one in _team:
        one.stay_alone()
    _team.clear()


os.register_at_fork(after_in_child=part)
