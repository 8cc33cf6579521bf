"""What `cleargrad explain --compile` says is so, and watching a program does not change what it computes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cleargrad as cg
from cleargrad import nn
from cleargrad.compile.report import report
from cleargrad.compile.watched import PROFILED, WatchedProgram, watching


def trained(compiles: bool, steps: int) -> tuple[Any, list[float]]:
    """A small model after some steps, with what compiled them and the losses on the way."""
    cg.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    optimizer = cg.optim.Adam(model.parameters(), lr=0.05)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = cg.randn(5, 6), cg.randint(3, (5,))
    run = cg.compile(step) if compiles else step
    losses = [run(x, y).item() for _ in range(steps)]
    return (run, model), losses


@pytest.fixture(scope="module")
def watched() -> Any:
    with watching() as found:
        (run, _), losses = trained(True, PROFILED + 5)
    assert found == [run]
    return run, losses


def test_watching_does_not_change_what_is_computed(watched: Any) -> None:
    _, expected = trained(False, PROFILED + 5)
    assert watched[1] == expected


def test_only_functions_made_meanwhile_are_watched(watched: Any) -> None:
    with watching() as found:
        pass
    later = cg.compile(lambda x: x + 1)
    assert not found and later.make is not WatchedProgram


def test_every_part_is_there(watched: Any) -> None:
    text = report(watched[0])
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0].endswith("step: 1 program")
    assert f"Program 1, 14 calls, {PROFILED + 3} runs, for x float32[5, 6], y int64[5]" in lines
    assert re.search(
        rf"{PROFILED + 3} x 14 calls, by program 1, when an optimizer has made its step at ", text
    )
    for section in ("graph", "kernels", "memory", "time", "where the time goes"):
        assert section in lines
    assert re.search(r"eliminate common subexpressions: \d+ -> \d+ calls; gone: ", text)
    assert re.search(r"eliminate dead code: ", text)
    assert re.search(r"one block of [\d.]+ k?B for \d+ buffers", text)
    assert "16 tensors are written where they lie: 0.weight" in text
    assert re.search(r"a step on one thread, kernel by kernel \(the least of 5 runs\)", text)
    assert max(map(len, lines)) < 200


def test_values_have_their_names(watched: Any) -> None:
    text = report(watched[0], full=True)
    assert "x [5, 6] @ 0.weight.T [6, 8]" in text
    assert "2.weight.grad [3, 8] = " in text
    assert "exp(-0.5*" in text and "0.weight.exp_avg" in text and "lr" in text
    assert "maximum over cols of" in text


def test_shares_of_time_add_up(watched: Any) -> None:
    text = report(watched[0], full=True)
    shares = [
        float(share)
        for share in re.findall(r" s +(\d+\.\d) %  +\d+  ", text.replace("us ", "s ").replace("ms ", "s "))
    ]
    (ending,) = watched[0].programs
    assert len(shares) == len(ending.program.entries)
    assert sum(shares) == pytest.approx(100, abs=0.1 * len(shares))


def test_full_leaves_nothing_out(watched: Any) -> None:
    short, full = report(watched[0]), report(watched[0], full=True)
    (ending,) = watched[0].programs
    assert "and others" not in full and "..." not in full
    assert len(full) > len(short)
    assert full.count(" = cross_entropy") + full.count(" = mm(") >= 5  # the graph's own calls
    assert ending.program.compiled + ending.program.from_disk + ending.program.known > 0


def test_a_host_call_says_why() -> None:
    with watching():
        run = cg.compile(lambda a: cg.linalg.inv(a).to(cg.complex64) * 2)
        for _ in range(3):
            run(cg.eye(3) * 2)
    text = report(run)
    assert "there is no kernel for it" in text
    assert "kernels do not know torch.complex64" in text


def test_a_module() -> None:
    with watching() as found:
        model = cg.compile(nn.Linear(4, 2))
        for _ in range(4):
            model(cg.ones(3, 4)).sum().backward()
    text = report(found[0])
    assert text.startswith("Linear: 1 program")
    assert "when the function returns" in text
    assert "input [3, 4] @ weight.T [4, 2]" in text


def test_a_look_at_a_value_is_named_with_its_line() -> None:
    def branch(x: Any) -> Any:
        return x + 1 if (x * 2).sum().item() > 0 else x

    with watching() as found:
        run = cg.compile(branch)
        for _ in range(4):
            run(cg.ones(2))
    text = report(found[0])
    assert text.startswith("test_a_look_at_a_value_is_named_with_its_line.<locals>.branch: 2 programs")
    assert (
        "2 x 2 calls, by program 1, when somebody looks at a value at " in text and "return x + 1 if" in text
    )


def test_before_the_second_call_there_is_nothing() -> None:
    run = cg.compile(lambda x: x + 1)
    run(cg.ones(2))
    assert "Nothing was compiled" in report(run)


SCRIPT = """
import torch

for _ in range(4):
    y = (torch.ones(3) + 1) * 2
    z = y.tolist()
print("result", z)
"""


def explain(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cleargrad", "explain", "--compile", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("more", [[], ["--full"]], ids=["short", "full"])
def test_command(tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = explain(*more, str(tmp_path / "script.py"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "result [4.0, 4.0, 4.0]"
    assert "script.py: 1 program" in lines
    assert any(line.strip() == "output0 = (input0 + 1)*2" for line in lines)
    assert any("= mul(" in line for line in lines) is bool(more)  # the graph itself


def test_command_reports_a_failing_program(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch\nraise ValueError('no')\n")
    done = explain(str(tmp_path / "script.py"))
    assert done.returncode == 1 and "ValueError: no" in done.stderr
    assert "Nothing was compiled" in done.stdout
