"""Machine code that knows a call again: the layouts of its arguments are compared, and the op's program runs.

A small call costs Python more than arithmetic: which dtype, which shape, what is the result's. All of that was
found out when a call with the same layouts was made before. What is left to do is to compare a few words, to
take memory for the result, and to run kernels; it is all done here, in one native function that Python calls as
its own.

What it knows are lists of words. A `Known` is one call: what its arguments must be, the job that binds arrays
and runs (devices/cpu/short.py), the result's layout, and who makes a tensor of the array. A `CallTable` is what it
knows of one function. Python's lock is held all the time. Read next: devices/cpu/programs/recall.py.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from cleargrad.core.address import DATA, address
from cleargrad.devices.cpu.llvm.jit import Kernel, addresses
from cleargrad.devices.cpu.llvm.text import Val
from cleargrad.devices.cpu.short import IDS, job_runner
from cleargrad.devices.cpu.team import TeamCode

# The words of a memory: how many calls it knows, how many unknown ones come before the next is studied, ...
COUNT, LEFT, STUDY, MODE, GRAD, SPECIAL, NOT_KNOWN, WAY, NEW, ARRAY, FLOATS, RUN, CALLS = range(13)
# ... and those of a call. A word for each argument follows, and two for each of the lists of layouts.
NUMBER, FINISH, JOB, RESULTS, LAYOUTS, ARGUMENTS = range(6)
# What an argument must be: an object, a float, a tensor of a layout, several tensors, a tuple of objects.
SAME, FLOAT, TENSOR, TENSORS, OBJECTS = range(5)
# The words of a result's layout.
KIND, RANK, EXTENTS, LAYOUT = range(4)
# The words of a layout: the class, the dtype and the rank; extents and strides follow. Those of a list or tuple:
# the class, the length, where in the object itself the items begin (0 if it says where), and what each must be.
CLASS, DTYPE, NDIM, SIZES = range(4)
LENGTH, INSIDE, ITEMS = 1, 2, 3

UNKNOWN = object()  # what the native function gives for a call that is not known
MOST = 16  # calls that are known of one function
SEVERAL = 4  # results of a call
ROOM = 16  # arguments, and arrays, of a call
TYPE, HEAD = 8, 16  # where an object says what it is, and where what follows begins
VECTOR = 24  # where a list says where its items are

SELF, ARGS, GIVEN = Val("%self", "ptr"), Val("%args", "ptr"), Val("%given", "i64")
NULL = Val("null", "ptr")


def place_in(thing: Any, name: str) -> int:
    """Where in an object a field of its class's `__slots__` stands."""
    probe = object()
    setattr(thing, name, probe)
    size = type(thing).__basicsize__
    found = [k for k in range(0, size, 8) if ctypes.c_void_p.from_address(id(thing) + k).value == id(probe)]
    return found[0]


@cache
def items_of_tuple() -> int:
    """Where in a tuple its items begin: Python 3.14 keeps a hash before them."""
    probe = (object(),)
    size = tuple.__basicsize__ + tuple.__itemsize__
    return next(
        k for k in range(HEAD, size, 8) if ctypes.c_void_p.from_address(id(probe) + k).value == id(probe[0])
    )


@cache
def array_fields() -> tuple[int, int, int, int] | None:
    """Where rank, extents, strides and dtype stand in an array object; None if they are not found."""
    probe = np.zeros((3, 5, 7), np.float32)[:, 1:4]
    start = id(probe)

    def word(place: int) -> int:
        return ctypes.c_int64.from_address(start + place).value

    rank, extents, strides, kind = DATA + 8, DATA + 16, DATA + 24, DATA + 40
    try:
        fits = ctypes.c_int.from_address(start + rank).value == 3 and word(kind) == id(probe.dtype)
        for place, wanted in ((extents, probe.shape), (strides, probe.strides)):
            fits = fits and tuple((ctypes.c_int64 * 3).from_address(word(place))) == wanted
    except ValueError:
        return None
    return (rank, extents, strides, kind) if fits else None


class RecallCode(TeamCode):
    """What the native function is made of."""

    def word_of(self, base: Val, index: int | Val, type: str = "i64") -> Val:
        number = self.integer(index) if isinstance(index, int) else index
        return self.load(self.at(base, number, "i64"), type)

    def field(self, thing: Val, place: int, type: str = "ptr") -> Val:
        """A field of an object, so many bytes behind its beginning."""
        return self.load(self.at(thing, self.integer(place), "i8"), type)

    def differs(self, a: Val, b: Val) -> Val:
        return self.now("i1", f"icmp ne {a}, {b.name}")

    def python(self, function: str, *operands: Val, result: str = "ptr") -> Val:
        """A call into Python's C interface."""
        self.declared.add(f"declare {result} @{function}({', '.join(x.type for x in operands)})")
        call = f"call {result} @{function}({', '.join(map(str, operands))})"
        if result == "void":
            self.do(call)
            return NULL
        return self.now(result, call)

    def give(self, value: Val) -> None:
        """Ends the function; what is written next is reached by no one."""
        self.count += 1
        self.do(f"ret {value}")
        self.label(f"unreached{self.count}")


@cache
def native(data_place: int) -> int:
    """The address of the function (self, args, count), for tensors whose array stands at a place in them."""
    fields = array_fields()
    assert fields is not None
    rank_at, extents_at, strides_at, kind_at = fields
    code = RecallCode()
    memory = code.field(SELF, DATA)
    ids = code.slot(
        "ptr"
    )  # where a job is told its arrays: those of the arguments, in their order, and the result
    many = code.slot("i64")
    second = code.slot(
        f"[{SEVERAL + 1 + ROOM} x ptr]"
    )  # what `finish` is called with: arrays, mode, arguments
    how = code.slot("ptr")

    def compare_tensor(tensor: Val, layout: Val, unknown: str) -> None:
        """Goes to a label unless a tensor is of a layout; its array is noted."""
        code.leave(code.differs(code.field(tensor, TYPE), code.word_of(layout, CLASS, "ptr")), unknown)
        array = code.field(tensor, data_place)
        code.leave(code.now("i1", f"icmp eq {array}, null"), unknown)  # the value waits
        code.leave(code.differs(code.field(array, kind_at), code.word_of(layout, DTYPE, "ptr")), unknown)
        rank = code.cast("zext", code.field(array, rank_at, "i32"), "i64")
        code.leave(code.differs(rank, code.word_of(layout, NDIM)), unknown)
        begin = code.at(layout, code.integer(SIZES), "i64")
        for place in (extents_at, strides_at):
            sizes = code.field(array, place)
            with code.loop(code.integer(0), rank) as axis:
                code.leave(code.differs(code.word_of(sizes, axis), code.word_of(begin, axis)), unknown)
            begin = code.at(begin, rank, "i64")
        number = code.get(many, "i64")
        code.store(array, code.at(code.get(ids, "ptr"), number, "ptr"))
        code.set(many, code.now("i64", f"add {number}, 1"))

    def items(sequence: Val, inside: Val) -> Val:
        """Where the items of a list or tuple stand."""
        place = code.slot("ptr")
        code.set(place, code.at(sequence, inside, "i8"))
        with code.when(code.now("i1", f"icmp eq {inside}, 0")):
            code.set(place, code.field(sequence, VECTOR))
        return code.get(place, "ptr")

    def compare_argument(argument: Val, wanted: Val, kind: Val, unknown: str) -> None:
        def is_kind(number: int) -> Val:
            return code.now("i1", f"icmp eq {kind}, {number}")

        with code.when(is_kind(SAME)):
            code.leave(code.differs(argument, wanted), unknown)
        with code.when(is_kind(FLOAT)):
            code.leave(code.differs(code.field(argument, TYPE), code.word_of(memory, FLOATS, "ptr")), unknown)
            code.leave(code.differs(code.field(argument, HEAD), wanted), unknown)
        with code.when(is_kind(TENSOR)):
            compare_tensor(argument, wanted, unknown)
        with code.when(code.now("i1", f"icmp sge {kind}, {TENSORS}")):
            code.leave(code.differs(code.field(argument, TYPE), code.word_of(wanted, CLASS, "ptr")), unknown)
            length = code.word_of(wanted, LENGTH)
            code.leave(code.differs(code.field(argument, HEAD, "i64"), length), unknown)
            inner = items(argument, code.word_of(wanted, INSIDE))
            with code.loop(code.integer(0), length) as index:
                item = code.load(code.at(inner, index, "ptr"), "ptr")
                expected = code.word_of(wanted, code.add(index, code.integer(ITEMS)), "ptr")
                with code.when(is_kind(OBJECTS)):
                    code.leave(code.differs(item, expected), unknown)
                with code.when(is_kind(TENSORS)):
                    compare_tensor(item, expected, unknown)

    # In which mode the call is made; where calls are seen by others, they are Python's.
    gate = code.word_of(memory, MODE, "ptr")
    code.set(how, code.load(gate, "ptr"))
    grad = code.word_of(memory, GRAD, "ptr")
    with code.when(code.differs(code.get(how, "ptr"), grad)):
        asked = code.python("PyObject_CallNoArgs", code.word_of(memory, WAY, "ptr"))
        with code.when(code.now("i1", f"icmp eq {asked}, null")):
            code.give(NULL)
        code.python("Py_DecRef", asked, result="void")  # a small number, which there always is
        code.set(how, asked)
        with code.when(code.now("i1", f"icmp eq {asked}, {code.word_of(memory, SPECIAL, 'ptr').name}")):
            code.give(unknown_call(code, memory))

    with code.forever() as nothing:
        with code.loop(code.integer(0), code.word_of(memory, COUNT)) as number:
            call = code.word_of(code.at(memory, code.integer(CALLS), "i64"), number, "ptr")
            code.count += 1
            unknown = f"unknown{code.count}"
            code.leave(code.differs(code.word_of(call, NUMBER), GIVEN), unknown)
            code.set(ids, code.at(code.word_of(call, JOB, "ptr"), code.integer(IDS), "i64"))
            code.set(many, code.integer(0))
            with code.loop(code.integer(0), GIVEN) as index:
                argument = code.load(code.at(ARGS, index, "ptr"), "ptr")
                pair = code.at(
                    call, code.add(code.mul(index, code.integer(2)), code.integer(ARGUMENTS)), "i64"
                )
                compare_argument(argument, code.word_of(pair, 1, "ptr"), code.word_of(pair, 0), unknown)
            result = code.at(code.get(ids, "ptr"), code.get(many, "i64"), "ptr")
            run(code, memory, call, result, second, code.get(how, "ptr"), nothing)
            code.do(f"br label %{unknown}")
            code.label(unknown)
        code.do(f"br label %{nothing}")
        code.label(f"never{code.count}")

    # Not known: now and then it is studied.
    place = code.at(memory, code.integer(LEFT), "i64")
    left = code.now("i64", f"sub {code.load(place, 'i64')}, 1")
    code.store(left, place)
    with code.when(code.now("i1", f"icmp eq {left}, 0")):
        study = code.word_of(memory, STUDY, "ptr")
        code.give(code.python("PyObject_Vectorcall", study, ARGS, GIVEN, NULL))
    code.do(f"ret {unknown_call(code, memory)}")
    text = code.function("kernel", [SELF, ARGS, GIVEN], "ptr")
    return addresses([Kernel(text, tuple(code.declared))])[0]


def unknown_call(code: RecallCode, memory: Val) -> Val:
    """What says that a call is not known, with a reference of its own."""
    value = code.word_of(memory, NOT_KNOWN, "ptr")
    code.python("Py_IncRef", value, result="void")
    return value


def run(code: RecallCode, memory: Val, call: Val, result: Val, second: Val, how: Val, nothing: str) -> None:
    """Runs the program of a call that is known, and ends the function with what `finish` makes of it.

    Nothing here has Python look for garbage before the program has run: nobody comes in between.
    """
    results, layouts = code.word_of(call, RESULTS), code.word_of(call, LAYOUTS, "ptr")
    maker, array = code.word_of(memory, NEW, "ptr"), code.word_of(memory, ARRAY, "ptr")
    with code.loop(code.integer(0), results) as index:
        layout = code.at(layouts, code.mul(index, code.integer(LAYOUT)), "i64")
        kind = code.word_of(layout, KIND, "ptr")
        code.python("Py_IncRef", kind, result="void")
        rank = code.now("i32", f"trunc {code.word_of(layout, RANK)} to i32")
        extents = code.word_of(layout, EXTENTS, "ptr")
        given = f"{array}, {kind}, {rank}, {extents}, ptr null, ptr null, i32 0, ptr null"
        value = code.now("ptr", f"call ptr {maker.name}({given})")
        with code.when(code.now("i1", f"icmp eq {value}, null")):
            code.python("PyErr_Clear", result="void")
            release(code, second, index)
            code.do(f"br label %{nothing}")
            code.label(f"short{code.count}")
        code.store(value, code.at(result, index, "ptr"))
        code.store(value, code.at(second, index, "ptr"))
    failed = code.now(
        "i64", f"call i64 {code.word_of(memory, RUN, 'ptr').name}({code.word_of(call, JOB, 'ptr')})"
    )
    with code.when(code.now("i1", f"icmp ne {failed}, 0")):
        release(code, second, results)
        code.do(f"br label %{nothing}")
        code.label(f"refused{code.count}")
    code.store(how, code.at(second, results, "ptr"))
    first = code.add(results, code.integer(1))
    with code.loop(code.integer(0), GIVEN) as index:
        argument = code.load(code.at(ARGS, index, "ptr"), "ptr")
        code.store(argument, code.at(second, code.add(index, first), "ptr"))
    made = code.python(
        "PyObject_Vectorcall", code.word_of(call, FINISH, "ptr"), second, code.add(GIVEN, first), NULL
    )
    release(code, second, results)
    code.give(made)


def release(code: RecallCode, objects: Val, count: Val) -> None:
    """The first of some objects are needed no longer."""
    with code.loop(code.integer(0), count) as index:
        code.python("Py_DecRef", code.load(code.at(objects, index, "ptr"), "ptr"), result="void")


# What it knows ---------------------------------------------------------------------------------------------


class Words:
    """Words in memory, with whatever they point to."""

    def __init__(self, words: Sequence[Any]) -> None:
        self.kept = list(words)
        self.words = np.array([pointer(word) for word in words], np.int64)

    @property
    def start(self) -> int:
        return address(self.words)


class Literal(int):
    """A word that is itself, as opposed to an object, which is where it is."""


def pointer(word: Any) -> int:
    if type(word) is Literal:
        return int(word)
    return word.start if isinstance(word, Words) else id(word)


def layout(kind: type, data: np.ndarray) -> Words:
    """What a tensor of a class must be like."""
    numbers = (data.ndim, *data.shape, *data.strides)
    return Words([kind, data.dtype, *map(Literal, numbers)])


class Known(Words):
    """A call that is known."""

    def __init__(self, arguments: Sequence[tuple[int, Any]], program: Any, finish: Callable) -> None:
        """`program` has the arrays of the arguments as its inputs, in their order."""
        pairs = [part for what, wanted in arguments for part in (Literal(what), wanted)]
        layouts = [
            word for shape, kind in program.output_specs
            for word in (kind, Literal(len(shape)), Words(list(map(Literal, shape))))
        ]  # fmt: skip
        job = Literal(address(program.job.words))
        super().__init__(
            [Literal(len(arguments)), finish, job, Literal(len(program.output_specs)), Words(layouts), *pairs]
        )
        self.program = program


class Definition(ctypes.Structure):
    """PyMethodDef, from Python's C interface."""

    _fields_ = [("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("words", ctypes.c_char_p)]  # fmt: skip


FASTCALL = 0x80


class CallTable(Words):
    """The calls that are known of one function, and `function`, which makes them or gives UNKNOWN."""

    def __init__(
        self, study: Callable, way: Callable, gate: Any, modes: tuple[Any, Any], data_place: int
    ) -> None:
        from numpy._core import _multiarray_umath as home

        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        table = ctypes.cast(get(home._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
        new = Literal(table[94])  # PyArray_NewFromDescr
        gate_how = Literal(id(gate) + place_in(type(gate)(), "how"))
        words = [
            Literal(0),
            Literal(1),
            study,
            gate_how,
            *modes,
            UNKNOWN,
            way,
            new,
            np.ndarray,
            float,
            Literal(job_runner()),
        ]
        super().__init__([*words, *[Literal(0)] * MOST])
        self.definition = Definition(b"recall", native(data_place), FASTCALL, None)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        self.function = make(ctypes.addressof(self.definition), self.words, None)
        self.calls: list[Known] = []  # that were ever known: the native function may be in the middle of one

    def add(self, call: Known) -> None:
        self.calls.append(call)
        count = self.words[COUNT]
        self.words[CALLS + count] = call.start
        self.words[COUNT] = count + 1

    def forget(self) -> None:
        self.words[COUNT] = 0

    def study_after(self, calls: int) -> None:
        self.words[LEFT] = calls
