"""The command line as a whole: help that lists everything, errors in one layout, exit codes, Ctrl-C, version."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import cleargrad
from cleargrad.cli import COMMANDS, make_parser, needed
from cleargrad.cli.completion import all_commands
from cleargrad.cli.terminal import CommandError
from tests.cli.commands import COMMAND, NAMES, start, start_in_terminal

PARSERS = {command.name: command for command in all_commands(make_parser())}


def help_of(*words: str) -> str:
    done = start(*words, "--help")
    assert done.returncode == 0 and not done.stderr
    return done.stdout


def test_help_lists_every_command() -> None:
    text = help_of()
    assert COMMANDS == NAMES
    for name in NAMES:
        assert re.search(rf"^  {name} +\w", text, re.M), name


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command_teaches(name: str) -> None:
    """What it is for, every option, an example, and nothing wider than a terminal."""
    text = help_of(name)
    assert f"cleargrad {name}" in text.split("examples:")[1]
    for option in PARSERS[name].options:
        assert option.names[-1] in text and option.help, option
    prose = text.split("options:")[0].splitlines()[2:] + text.split("examples:")[1].splitlines()
    assert max(map(len, prose)) <= 80


def test_version_and_what_it_loads() -> None:
    done = start("--version")
    assert done.stdout == f"cleargrad {cleargrad.__version__}\n" and done.returncode == 0
    program = (
        "import sys, cleargrad.cli as cli\n"
        "try: cli.main(['--version'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'rich', 'llvmlite', 'cleargrad.cli.demo', 'cleargrad.doctor'} & sys.modules.keys()))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert loaded.stdout.splitlines()[-1] == "[]", loaded.stderr
    assert needed(["run", "x.py"]) == ["run"] and needed(["rnu"]) == COMMANDS


@pytest.mark.parametrize(
    "words, sentence, fix",
    [
        (["doctr"], "COMMAND cannot be 'doctr'", "did you mean doctor? see cleargrad --help"),
        (["run"], "the following arguments are required: PROGRAM", "see cleargrad run --help"),
        (
            ["info", "--jsn"],
            "unrecognized arguments: --jsn",
            "did you mean --json? see cleargrad info --help",
        ),
        (["doctor", "--engine", "x", "a.py"], "--engine cannot be 'x'", "see cleargrad doctor --help"),
        (["demo", "--steps", "x"], "--steps: invalid int value: 'x'", "see cleargrad demo --help"),
        (["run", "nothing.py"], "can't open file 'nothing.py'", "give the path of a Python file"),
        (["doctor", "nothing.py"], "can't open file 'nothing.py'", "give the path of a Python file"),
        (["bench", "--workloads", "mpl"], "'mpl' is none of the workloads", ""),
        (["completion", "bsh"], "shell cannot be 'bsh'", "did you mean bash?"),
    ],
)
def test_wrong_usage(words: list[str], sentence: str, fix: str, tmp_path: Path) -> None:
    """One sentence, the facts, the fix; exit status 2, nothing on standard output."""
    done = start(*words, folder=tmp_path)
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and done.stdout == "", done.stderr
    assert lines[0].startswith("cleargrad") and lines[0].endswith(sentence)
    assert all(re.match(r"  \w+  +\S", line) for line in lines[1:]) and len(lines) > 1, done.stderr
    assert fix in lines[-1]


def test_no_command_prints_the_help() -> None:
    done = start()
    assert done.returncode == 2 and done.stderr.startswith("usage: cleargrad")


def test_failure(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    done = start("demo", "--folder", "taken", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "cleargrad demo: cannot write to the folder taken",
        "  reason  File exists",
        "  fix     choose another folder with --folder DIR",
    ]
    missing = start("run", "-m", "nothing_here", folder=tmp_path)
    assert missing.returncode == 1 and missing.stderr.startswith("cleargrad: no module named nothing_here\n")


def test_layout_is_that_of_the_librarys_errors() -> None:
    with pytest.raises(RuntimeError) as raised:
        cleargrad.ones(2, 3) @ cleargrad.ones(2, 3)
    pattern = r"[^\n]+: [^\n]+(\n  \w+ +[^\n]+)+"
    error = CommandError("cleargrad demo", "it cannot be done", reason="none", fix="try")
    assert re.fullmatch(pattern, str(error)) and re.fullmatch(pattern, str(raised.value))


def test_output_that_nobody_reads() -> None:
    """`cleargrad info | head -1` ends without a traceback."""
    with subprocess.Popen([*COMMAND, "info"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


# Ctrl-C ----------------------------------------------------------------------------------------------------


def children(process: int) -> list[int]:
    """The processes that one has started, and theirs."""
    done = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    own = [child for child, parent in parents if parent == process]
    return own + [grandchild for child in own for grandchild in children(child)]


def wait_for(condition, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def is_alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def started(*words: str, **settings: Any) -> Iterator[subprocess.Popen]:
    """A process that hears Ctrl-C, also where whoever runs the tests does not, and that ends with the block."""
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **settings,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="finds leftover processes in /proc, which only Linux has")
def test_interrupted_bench_leaves_no_process(tmp_path: Path) -> None:
    words = ["bench", "--workloads", "linear", "--rounds", "100000", "--variants", "cleargrad"]
    with started(*COMMAND, *words, cwd=tmp_path) as process:
        assert wait_for(lambda: children(process.pid))
        workers = children(process.pid)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said.strip() == "cleargrad: interrupted"
    assert wait_for(lambda: not any(map(is_alive, workers)), 20)


def test_interrupted_demo(tmp_path: Path) -> None:
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with started(*COMMAND, "demo", "--steps", "10000000", cwd=tmp_path, env=unbuffered) as process:
        assert process.stdout is not None
        while "1. A script" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said.strip() == "cleargrad: interrupted"


def test_an_interrupted_program_ends_as_under_python(tmp_path: Path) -> None:
    program = tmp_path / "a.py"
    # One line: wherever the signal finds the program, the traceback names it, marks below it aside.
    program.write_text("import time; print('ready', flush=True); time.sleep(60)\n")
    ends = []
    for command in ([*COMMAND, "run"], [sys.executable]):
        with started(*command, str(program)) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        ends.append((process.returncode, re.sub(r"(?m)^ *[~^]+\n", "", said)))
    assert ends[0] == ends[1] and "KeyboardInterrupt" in ends[0][1]


# Terminals and pipes ---------------------------------------------------------------------------------------


def test_colour_only_in_terminals(tmp_path: Path) -> None:
    assert "\x1b" not in start("info").stdout
    assert "\x1b[1msoftware" in start_in_terminal("info", folder=tmp_path)[1]
    assert "\x1b" not in start_in_terminal("info", folder=tmp_path, NO_COLOR="1")[1]
    assert "\x1b" not in start_in_terminal("info", folder=tmp_path, TERM="dumb")[1]


def test_using_a_gradient_that_is_none_says_who_cleared_it(tmp_path: Path) -> None:
    program = """
import torch
model = torch.nn.Linear(2, 1)
model(torch.ones(1, 2)).sum().backward()
model.zero_grad()
print(model.weight.grad.norm())
"""
    (tmp_path / "train.py").write_text(program)
    done = start("run", "train.py", folder=tmp_path)
    assert done.returncode == 1
    assert "AttributeError: 'NoneType' object has no attribute 'norm'" in done.stderr
    assert "zero_grad() sets gradients to None" in done.stderr
    assert "train.py:5 in <module>: model.zero_grad()" in done.stderr
