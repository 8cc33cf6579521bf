"""Random programs as compiled functions: every call gives what an eager call gives, and leaves what it leaves.

The programs are those of tests/test_fuzz.py, where their eager runs are compared with PyTorch. Here every second
leaf is an argument and the others are tensors that the function knows by name; all or some of what it computes is
returned. Four calls on other numbers: two run call by call, two run the program. Then backward() is called on what
can still be walked. Compared are values, layouts, gradients, histories, and which results are the same tensor or
share memory. What fails is shortened and printed with its seed.
`python -m tests.compile.test_random_programs 20000 [first seed]` runs more of them.
"""

from __future__ import annotations

import os
import random
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import cleargrad as cg
from tests.compile.world import runs
from tests.programs import Line
from tests.test_fuzz import (
    COMPILED,
    Different,
    Program,
    draw_program,
    problem,
    shorten,
    start,
    step,
    strides,
    without,
)

BATCH, BATCHES = 100, 20
NATIVE = 2  # every second program is compiled to machine code, the others run their graph with NumPy
CALLS = 4
compiled: list[bool] = []  # for every program, whether compiled ones ran
pytestmark = pytest.mark.filterwarnings("ignore")


def written(program: Program) -> str:
    """A program as a function of its arguments that returns what it has made, by name."""
    leaves, lines = program
    outside = ", ".join(leaf.name for leaf in leaves[1::2])
    body = [*([f"    global {outside}"] if outside else []), *(f"    {line}" for line in lines)]
    body.append(f"    return {{{', '.join(f'{name!r}: {name}' for name in returned(program))}}}")
    return "\n".join([f"def program({', '.join(leaf.name for leaf in leaves[::2])}):", *body])


def returned(program: Program) -> list[str]:
    """The names of the results: everything, or a part, always with the last."""
    leaves, lines = program
    names: dict[str, None] = {}
    for line in lines:
        if line.source.startswith("del "):
            names.pop(line.source.removeprefix("del "), None)
        elif line.target is not None:
            names[line.target] = None
    names = dict.fromkeys(leaf.name for leaf in leaves[::2]) | names
    seed = leaves[0].seed if leaves else 0
    everything = seed % 3 == 0
    dice = {name: random.Random(f"{seed}{name}").random() for name in names}
    return [name for name in names if everything or dice[name] < 0.3 or name == list(names)[-1]]


def made(program: Program) -> tuple[Callable, dict[str, Any]]:
    """The function, and the tensors that it knows by name."""
    outside = start(cg, program[0][1::2])
    names: dict[str, Any] = {"T": cg, **outside}
    exec(compile(written(program), "<program>", "exec"), names)
    return names["program"], outside


def by_value(line: Line) -> bool:
    """Whether the shape of what a line computes depends on values: such lines end traces."""
    return re.search(r"nonzero|masked_select|\[t\d+ > 0\]|\[T.tensor\([^()]*bool\)", line.source) is not None


def fitting(program: Program) -> Program:
    """A program without the lines that fail on any of the numbers, or that a function cannot have."""
    leaves, lines = program
    own = {leaf.name for leaf in leaves[1::2]}
    lines = [line for line in lines if not (line.source.startswith("del ") and line.uses() & own)]
    for number in [number for number, line in enumerate(lines) if by_value(line)][::-1]:
        if not leaves or leaves[0].seed % 10:
            lines = without(lines, number)
    variant, number = 0, 0
    known = start(cg, leaves[1::2])
    while variant < CALLS:
        names = known | start(cg, leaves[::2], variant)
        for number, line in enumerate(lines):
            if step(cg, names, line) is not None:
                lines, variant, known = without(lines, number), 0, start(cg, leaves[1::2])
                break
        else:
            variant += 1
    return leaves, lines


class Side:
    """An eager or a compiled function with tensors of its own."""

    def __init__(self, program: Program, wrapper: Callable) -> None:
        function, self.outside = made(program)
        self.function = wrapper(function)
        self.arguments = program[0][::2]

    def call(self, variant: int) -> None:
        """One call: what is there afterwards, by name."""
        given = start(cg, self.arguments, variant)
        known = {f"{name} (argument)": tensor for name, tensor in given.items()} | self.outside
        versions = {name: tensor._version for name, tensor in known.items()}
        self.found = self.function(*given.values()) | known
        self.written = {name for name, tensor in known.items() if tensor._version != versions[name]}

    def walk_back(self, name: str) -> str:
        """Calls backward() on a result; gives what went wrong, as a type."""
        try:
            self.found[name].backward(cg.ones_like(self.found[name]))
        except RuntimeError:
            return "RuntimeError"
        return ""


def check_compiled(program: Program, backend: str) -> None:
    program = fitting(program)
    eager, native = (
        Side(program, lambda function: function),
        Side(program, partial(cg.compile, backend=backend)),
    )
    for variant in range(CALLS):
        eager.call(variant)
        native.call(variant)
        compare_all(native, eager, f"call {variant}")
    for name, tensor in list(eager.found.items()):
        if tensor.requires_grad and not tensor.is_leaf:
            failed, expected = native.walk_back(name), eager.walk_back(name)
            where = f"after backward() of {name}"
            if expected and not failed:
                break  # a compiled call has saved copies of values that were written since
            if failed != expected:
                raise Different(f"{where}: {failed or 'no error'} instead of {expected or 'no error'}")
            if failed:
                break  # some leaves have their gradient by then, others not
            compare_all(native, eager, where)
    compiled.append(runs(native.function) > 0)


def compare_all(native: Side, eager: Side, where: str) -> None:
    for name, tensor in eager.found.items():
        compare(native.found[name], tensor, f"{where}, {name}")
    if native.written != eager.written:
        raise Different(f"{where}: new versions of {native.written} instead of {eager.written}")
    mine, expected = sharing(native.found), sharing(eager.found)
    if mine != expected:
        raise Different(f"{where}: only compiled {mine - expected}, only eager {expected - mine}")
    for name in {name for kind, *names in expected for name in names if kind == "memory"}:
        if strides(native.found[name]) != strides(eager.found[name]):
            layouts = native.found[name].stride(), eager.found[name].stride()
            raise Different(f"{where}, {name}: strides {layouts[0]} instead of {layouts[1]}")


def sharing(found: dict[str, cg.Tensor]) -> set[tuple[str, str, str]]:
    """Pairs that are one tensor, or that have memory in common."""
    pairs = set()
    names = [name for name, tensor in found.items() if tensor.numel()]
    bounds = {name: np.lib.array_utils.byte_bounds(found[name].detach().numpy()) for name in names}
    for position, one in enumerate(names):
        for other in names[:position]:
            (low, high), (first, last) = bounds[one], bounds[other]
            if found[one] is found[other]:
                pairs.add(("same", one, other))
            elif low < last and first < high:
                pairs.add(("memory", one, other))
    return pairs


def compare(found: cg.Tensor, expected: cg.Tensor, where: str) -> None:
    facts = [(t.shape, t.dtype, t.requires_grad, t.is_leaf, t.retains_grad) for t in (found, expected)]
    if facts[0] != facts[1]:
        raise Different(f"{where}: {facts[0]} instead of {facts[1]}")
    same_bits(found, expected, where)
    grads = found._grad, expected._grad
    if (grads[0] is None) != (grads[1] is None):
        raise Different(f"{where}.grad: {grads[0]} instead of {grads[1]}")
    if grads[1] is not None:
        same_bits(grads[0], grads[1], f"{where}.grad")


def same_bits(found: cg.Tensor, expected: cg.Tensor, where: str) -> None:
    """Whether numbers are the same to the last bit, but for what bits a NaN has."""
    numbers, wanted = found.detach().numpy(), expected.detach().numpy()
    if wanted.dtype == np.int64:  # what becomes of a NaN among whole numbers is nobody's promise
        numbers = np.where(wanted == np.iinfo(np.int64).min, wanted, numbers)
    alike = (numbers == wanted) | ((numbers != numbers) & (wanted != wanted))
    if not alike.all():
        place = np.unravel_index(np.argmin(alike), alike.shape)
        raise Different(
            f"{where}: {numbers[place]!r} instead of {wanted[place]!r} at {tuple(map(int, place))}"
        )


def report(seed: int, native: int = NATIVE) -> str | None:
    """Checks the program of a seed; a failing one comes back shortened, as text."""
    COMPILED.clear()
    program = draw_program(seed)
    backend = "inductor" if seed % native == 0 else "aot_eager"
    check = partial(check_compiled, backend=backend)
    if problem(check, program) is None:
        return None
    program = fitting(shorten(check, program))
    text = "\n".join([*map(str, program[0]), written(program)])
    return f"seed {seed}\n{text}\n{problem(check, program)}"


@pytest.mark.parametrize("batch", range(BATCHES))
def test_programs(batch: int) -> None:
    compiled.clear()
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        found = report(seed)
        assert found is None, found
    assert sum(compiled) > 0.8 * len(compiled)  # the others compute nothing, or write what cannot be compiled


def main(count: int, first: int = 0, native: int = NATIVE) -> None:
    torch.set_num_threads(1)
    os.environ["CLEARGRAD_VERIFY"] = "1"
    warnings.simplefilter("ignore")
    found = 0
    for seed in range(first, first + count):
        text = report(seed, native)
        if text is not None:
            found += 1
            print(text, end="\n\n", flush=True)
    print(f"{count} programs, {found} problems, {sum(compiled)} of {len(compiled)} compiled")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
