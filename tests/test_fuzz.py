"""Random programs under cleargrad and under PyTorch: every line must do the same in both.

After each line its result is compared: value, dtype, shape, strides of views, requires_grad, is_leaf and
version; after each write and each backward, all that exists. A line that fails must fail in both, with the
same type. Then the program is recorded, replayed on other numbers and compared with an eager run on those.
What fails is shortened and printed with its seed. `python -m tests.test_fuzz 20000 [first seed]` runs more of
them.
"""

from __future__ import annotations

import random
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cleargrad as cg
from cleargrad.core.mode import settle
from cleargrad.ops.record import CaptureError, Recorder, replay
from tests.oracle import Failure
from tests.program_lines import draw_leaves, draw_line, last_line
from tests.programs import Leaf, Line

LARGEST, MOST = 1e3, 400  # beyond these, rounding errors and time grow without testing more
BATCH, BATCHES = 100, 20
ALLOWED_HERE = (  # what PyTorch says when it refuses something that works here
    "modified by an inplace operation",  # in backward: we have kept a copy of the old value
    "has been modified inplace",  # in backward of ops that look into one of several views
    "refer to a single memory location",  # operands that overlap the target; ours are read first
    "returned an invalid gradient",  # in backward of scatter_ with a source larger than its index
    "through the graph a second time",  # CopySlices can be walked once there, even if nothing was saved
    "moved into the graph interior",  # a leaf that was detached in place, then written
    "detached in-place",  # in backward: a saved tensor that left the graph
    "without overflow",  # a NaN among whole numbers
    "not implemented for",  # dtypes for which PyTorch has no kernel
)
REFUSED_HERE = (  # and what we say
    "more than one element of the written-to tensor",  # PyTorch lets fill_ write into expanded ones
    "IndexAddBackward0",  # it keeps the index although only the source's gradient needs it
    "not implemented for",  # PyTorch looks at the shape first
)
pytestmark = pytest.mark.filterwarnings("ignore")

Program = tuple[list[Leaf], list[Line]]
COMPILED: dict[str, Any] = {}


class Different(AssertionError):
    """The two libraries disagree."""


# Running ---------------------------------------------------------------------------------------------------


def start(T: Any, leaves: list[Leaf], variant: int = 0) -> dict[str, Any]:
    """The tensors a program starts with, by name."""
    tensors = {}
    for leaf in leaves:
        tensors[leaf.name] = T.tensor(leaf.values(variant), dtype=getattr(T, leaf.dtype))
        if leaf.needs_grad:
            tensors[leaf.name].requires_grad_()
    return tensors


def step(T: Any, tensors: dict[str, Any], line: Line) -> Failure | None:
    """Runs one line on the named tensors; a failure is caught and returned."""
    text = line.source if line.target is None else f"{line.target} = {line.source}"
    code = COMPILED.get(text)
    if code is None:
        code = COMPILED[text] = compile(text, text, "exec")
    try:
        late = False
        with T.set_grad_enabled(line.grad):
            exec(code, {"T": T}, tensors)
        late = True
        settle()
    except CaptureError:
        raise
    except Exception as exception:
        failure = Failure(exception)
        failure.late = late
        failure.text = "".join(traceback.format_exception_only(exception)).strip()
        return failure
    return None


def draw_program(seed: int) -> Program:
    """A program, drawn line by line while PyTorch runs it."""
    rng = random.Random(seed)
    leaves = draw_leaves(rng)
    tensors = start(torch, leaves)
    lines: list[Line] = []
    grad, length = True, rng.randint(3, 25)
    fleeting: list[str] = []
    while len(lines) < length:
        if rng.random() < (0.04 if grad else 0.35):
            grad = not grad
            for name in filter(tensors.__contains__, fleeting):
                lines.append(Line(f"del {name}"))
                step(torch, tensors, lines[-1])
            fleeting = []
        line = draw_line(rng, tensors, grad, f"t{len(leaves) + len(lines)}")
        before = dict(tensors)
        failed = step(torch, tensors, line)
        if not grad and failed is None and line.target is not None and tensors[line.target]._is_view():
            # A view made without recording is used only there, and only when it looks into nothing recorded:
            # for the rest PyTorch has other rules than we, on purpose (tests/autograd/test_inplace.py).
            if tensors[line.target]._base.requires_grad:
                tensors = before
                continue
            fleeting.append(line.target)
        lines.append(line)
        for name in [name for name, tensor in tensors.items() if forbidden(tensor)]:
            lines.append(Line(f"del {name}"))
            step(torch, tensors, lines[-1])
        if any(too_large(tensors[name]) for name in (*line.uses(), line.target) if name in tensors):
            return leaves, lines[:-1]
        if failed and line.kind == "backward":
            break
    else:
        for _ in range(rng.choice([1, 1, 2])):
            line = last_line(rng, tensors)
            lines += [] if line is None else [line]
    return leaves, lines


def too_large(tensor: torch.Tensor) -> bool:
    count = tensor.numel()
    return count > MOST or bool(
        (tensor.detach().abs() > LARGEST).any() if tensor.dtype != torch.bool else False
    )


# Comparing -------------------------------------------------------------------------------------------------


def check(program: Program) -> None:
    """Runs a program in both libraries, line by line, and compares."""
    leaves, lines = program
    ours, theirs = start(cg, leaves), start(torch, leaves)
    rough = False
    for number, line in enumerate(lines):
        where = f"line {number}: {line}"
        failed, expected = step(cg, ours, line), step(torch, theirs, line)
        if failed != expected:
            if differs_on_purpose(failed, expected):
                return
            raise Different(f"{where}\n  ours: {says(failed)}\n  torch: {says(expected)}")
        if line.kind == "backward" and failed is not None:
            return  # some leaves have their gradient by then, others not
        if failed is not None and failed.late:
            return  # a call that waited has its place in the graph, and its result a name
        rough = rough or any(tensor.dtype == torch.float32 for tensor in theirs.values())
        if line.kind == "value" and failed is None and line.target is not None:
            align(line, ours, theirs)
        names = [line.target] if line.kind in ("value", "view", "rare") else list(theirs)
        for name in names:
            if name in theirs and not forbidden(theirs[name]):
                compare(ours[name], theirs[name], f"{where}\n  {name}", rough)
        if line.target in theirs and line.kind == "view":
            compare_strides(ours[line.target], theirs[line.target], f"{where}\n  {line.target}")


def align(line: Line, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """The layout of results that are not views is nobody's promise; where it differs, both take a copy."""
    name = line.target
    if strides(ours[name]) != strides(theirs[name]):
        step(cg, ours, Line(f"{name}.clone().contiguous()", name, line.grad))
        step(torch, theirs, Line(f"{name}.clone(memory_format=T.contiguous_format)", name, line.grad))


def differs_on_purpose(failed: Failure | None, expected: Failure | None) -> bool:
    if failed is not None and "a leaf Variable" in says(expected):
        return True  # two things are wrong
    allowed = any(words in says(expected) for words in ALLOWED_HERE)
    refused = any(words in says(failed) for words in REFUSED_HERE)
    return ((failed is None or failed.kind is RuntimeError) and allowed) or refused


def says(failure: Failure | None) -> str:
    return "no error" if failure is None else failure.text


def forbidden(tensor: torch.Tensor) -> bool:
    """Whether PyTorch forbids looking at it: one of several views, once the tensor behind it was written."""
    try:
        tensor.is_leaf  # noqa: B018
    except RuntimeError:
        return True
    return False


def compare(ours: cg.Tensor, theirs: torch.Tensor, where: str, rough: bool) -> None:
    close(ours, theirs, where, rough)
    for fact in ("requires_grad", "is_leaf", "_version"):
        mine, expected = getattr(ours, fact), getattr(theirs, fact)
        if mine != expected:
            raise Different(f"{where}.{fact}: {mine} instead of {expected}")
    if theirs.is_leaf or theirs.retains_grad:
        if (ours.grad is None) != (theirs.grad is None):
            raise Different(f"{where}.grad: {ours.grad} instead of {theirs.grad}")
        if ours.grad is not None:
            close(ours.grad, theirs.grad, f"{where}.grad", rough)


def close(ours: cg.Tensor, theirs: torch.Tensor, where: str, rough: bool) -> None:
    if tuple(ours.shape) != tuple(theirs.shape) or str(ours.dtype) != str(theirs.dtype):
        raise Different(f"{where}: {ours.shape} {ours.dtype} instead of {theirs.shape} {theirs.dtype}")
    same_numbers(ours.detach().numpy(), theirs.detach().numpy(), where, rough)


def same_numbers(ours: np.ndarray, theirs: np.ndarray, where: str, rough: bool) -> None:
    """Equal to what float64 can show, or float32 when a program has used it."""
    if ours.tobytes() == theirs.tobytes():
        return
    if ours.dtype.kind == "f":
        loose = 2e-4 if rough else 1e-8
        good = np.allclose(ours, theirs, loose, loose * 10, equal_nan=True)
    else:
        good = np.array_equal(ours, theirs)
    if not good:
        raise Different(f"{where}:\n{ours}\n  instead of\n{theirs}")


def compare_strides(ours: cg.Tensor, theirs: torch.Tensor, where: str) -> None:
    if strides(ours) != strides(theirs):
        raise Different(f"{where}: strides {ours.stride()} instead of {theirs.stride()}")


def strides(tensor: Any) -> list[int]:
    """Where they say something: along dimensions with more than one element."""
    if not tensor.numel():
        return []
    return [step for n, step in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]


# Replaying -------------------------------------------------------------------------------------------------


def check_replay(program: Program) -> bool:
    """Records a program, replays it on other numbers and compares with an eager run on those."""
    leaves, lines = program
    symbolic = leaves[::2]  # the others are outside tensors
    while True:
        lines, layouts = working(leaves, symbolic, lines)
        try:
            graph, names, outside = record(leaves, symbolic, lines, layouts)
            break
        except NeedsValue as failure:
            lines = without(lines, failure.args[0])
        except OtherLayout as failure:
            number = failure.args[0]
            copy = f"({lines[number].source}).clone().contiguous()"
            lines = [*lines[:number], replace(lines[number], source=copy), *lines[number + 1 :]]
    eager = begin(leaves, symbolic)
    for line in lines:
        step(cg, eager, line)
    arrays = replay(graph, [leaf.values(1) for leaf in symbolic])
    for name, array in zip(names, arrays, strict=True):
        grad = name.endswith(".grad")
        tensor = eager[name.removesuffix(".grad")]
        expected = (tensor.grad if grad else tensor).detach()
        if array.shape != tuple(expected.shape) or array.dtype != expected._data.dtype:
            eager_is = f"{expected.shape} {expected.dtype}"
            raise Different(f"replayed {name}: {array.shape} {array.dtype}, eager {eager_is}")
        same_numbers(array, expected.numpy(), f"replayed {name}", True)
    for name, tensor in outside.items():
        final = eager[name].detach().numpy()
        same_numbers(tensor.detach().numpy(), final, f"{name}, outside, after the replay", True)
    return bool(lines)


class NeedsValue(Exception):
    """A line of a program that cannot be recorded."""


class OtherLayout(Exception):
    """A line whose result lies otherwise in memory when it is recorded, which is nobody's promise."""


def begin(leaves: list[Leaf], symbolic: list[Leaf]) -> dict[str, Any]:
    """Leaves for a replay: other numbers for the symbolic ones, the program's own for those outside."""
    return start(cg, [leaf for leaf in leaves if leaf not in symbolic]) | start(cg, symbolic, 1)


def working(leaves: list[Leaf], symbolic: list[Leaf], lines: list[Line]) -> tuple[list[Line], list]:
    """The lines without those that fail on the other numbers, and the strides of their results."""
    while True:
        tensors, layouts = begin(leaves, symbolic), []
        for number, line in enumerate(lines):
            if step(cg, tensors, line) is not None:
                lines = without(lines, number)
                break
            layouts.append(strides(tensors[line.target]) if line.target in tensors else None)
        else:
            return lines, layouts


def record(leaves: list[Leaf], symbolic: list[Leaf], lines: list[Line], layouts: list) -> tuple:
    """The graph, the names of its outputs, and the outside tensors."""
    tensors = start(cg, leaves)
    outside = {leaf.name: tensors[leaf.name] for leaf in leaves if leaf not in symbolic}
    with Recorder() as recorder:
        for leaf in symbolic:
            tensors[leaf.name] = recorder.input(tensors[leaf.name])
            if leaf.needs_grad:
                tensors[leaf.name].requires_grad_()
        for number, line in enumerate(lines):
            try:
                failed = step(cg, tensors, line)
            except CaptureError as failure:
                raise NeedsValue(number) from failure
            if failed is not None:
                raise Different(f"recording line {number}: {line}\n  {failed.text}")
            made = line.kind == "value" and line.target in tensors
            if made and strides(tensors[line.target]) != layouts[number]:
                raise OtherLayout(number)
        outputs = dict(tensors)
        for name, tensor in tensors.items():
            if tensor.is_leaf and tensor.grad is not None:
                outputs[name + ".grad"] = tensor.grad
        graph = recorder.finish(list(outputs.values()))
    return graph, list(outputs), outside


def without(lines: list[Line], number: int) -> list[Line]:
    """A program without one line, and without those that use what it made."""
    kept, lost = [], set()
    for position, line in enumerate(lines):
        if position == number or line.uses() & lost:
            lost.add(line.target)
        else:
            kept.append(line)
    return kept


# Shortening and reporting ----------------------------------------------------------------------------------


def problem(check_it: Callable, program: Program) -> str | None:
    """What is wrong with a program, or None; a crash of the test itself is a problem too."""
    try:
        check_it(program)
    except Different as difference:
        return str(difference)
    except Exception:
        return traceback.format_exc(limit=-6)
    return None


def shorten(check_it: Callable, program: Program) -> Program:
    """The same kind of failure in as few lines as leaving lines out can do."""
    leaves, lines = program
    number = len(lines) - 1
    while number >= 0:
        fewer = without(lines, number)
        if problem(check_it, (leaves, fewer)) is not None:
            lines = fewer
            number = len(lines)
        number -= 1
    used = set().union(*(line.uses() for line in lines))
    needed = [leaf for leaf in leaves if leaf.name in used]
    return (needed, lines) if problem(check_it, (needed, lines)) is not None else (leaves, lines)


def report(seed: int) -> str | None:
    """Checks the program of a seed; a failing one comes back shortened, as text."""
    COMPILED.clear()
    program = draw_program(seed)
    for check_it in (check, check_replay):
        if problem(check_it, program) is not None:
            program = shorten(check_it, program)
            text = "\n".join(map(str, [*program[0], *program[1]]))
            return f"seed {seed}\n{text}\n{problem(check_it, program)}"
    return None


@pytest.mark.parametrize("batch", range(BATCHES))
def test_programs(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        found = report(seed)
        assert found is None, found


# One line in depth: what stands between brackets -----------------------------------------------------------


def index_items() -> st.SearchStrategy:
    number = st.integers(-4, 4)
    bound = st.none() | number
    return st.one_of(
        number,
        st.builds(slice, bound, bound, st.none() | st.integers(1, 3)),
        st.none(),
        st.just(...),
        st.booleans(),
        st.lists(number, min_size=1, max_size=3),
        st.lists(st.booleans(), min_size=1, max_size=4),
    )


@settings(max_examples=400, derandomize=True, deadline=None, database=None)
@given(
    st.sampled_from([(), (3,), (2, 3), (4, 1), (0, 2), (2, 3, 4)]),
    st.lists(index_items(), min_size=1, max_size=4).map(tuple).filter(lambda items: items.count(...) < 2),
    st.sampled_from([2, 0.5, [1.0], [[3.0], [4.0]]]),
)
def test_brackets(shape: tuple, index: tuple, value: Any) -> None:
    """Reading and writing by any index: the same elements, the same gradients, the same refusals."""
    index = index[0] if len(index) == 1 else index
    count = int(np.prod(shape))
    leaf = Leaf("t0", shape, "float64", True, count)
    written = value if isinstance(value, (int, float)) else f"T.tensor({value})"
    lines = [
        Line(f"t0[{source_of(index)}]", "t1"),
        Line("(t1 * t1).sum().backward()", kind="backward"),
        Line("t0 * 2", "t2"),
        Line(f"t2[{source_of(index)}] = {written}", kind="write"),
        Line("(t2 * t2).sum().backward()", kind="backward"),
    ]
    found = problem(check, ([leaf], lines))
    assert found is None, found


def source_of(index: Any) -> str:
    if isinstance(index, tuple):
        return ", ".join(map(source_of, index))
    if isinstance(index, slice):
        text = [("" if bound is None else str(bound)) for bound in (index.start, index.stop, index.step)]
        return ":".join(text)
    return "..." if index is ... else f"T.tensor({index})" if isinstance(index, list) else repr(index)


def main(count: int, first: int = 0) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = 0
    for seed in range(first, first + count):
        text = report(seed)
        if text is not None:
            found += 1
            print(text, end="\n\n", flush=True)
    print(f"{count} programs, {found} problems")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
