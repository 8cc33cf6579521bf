"""`cleargrad doctor`: the script's own output and exit status, and the report beside them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

LOOP = """
import sys
import {torch}
model = {torch}.nn.Linear(2, 1)
optimizer = {torch}.optim.SGD(model.parameters(), lr=0.1)
for i in range(5):
    {clear}
    model({torch}.ones(3, 2)).sum().backward()
    optimizer.step()
print("trained", *sys.argv[1:])
{last}
"""


def start(folder: Path, *arguments: str, **parts: str) -> subprocess.CompletedProcess[str]:
    parts = {"torch": "cleargrad", "clear": "optimizer.zero_grad()", "last": "", **parts}
    (folder / "train.py").write_text(textwrap.dedent(LOOP.format(**parts)))
    command = [sys.executable, "-m", "cleargrad", "doctor", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("torch", ["torch", "cleargrad"])
def test_a_mistake_on_the_engine_that_the_script_imports(torch: str, tmp_path: Path) -> None:
    ran = start(tmp_path, "--json", "found.json", "train.py", "--epochs", "1", torch=torch, clear="pass")
    assert (ran.returncode, ran.stdout) == (1, "trained --epochs 1\n")
    assert "optimizer.zero_grad() is missing before train.py:8" in ran.stderr
    report = json.loads((tmp_path / "found.json").read_text())
    (finding,) = report["findings"]
    assert (report["engine"], report["steps"]) == (torch, 5)
    assert (finding["rule"], finding["line"], finding["step"]) == ("gradient-reused", 9, 2)
    assert finding["parameters"] == ["weight", "bias"]


def test_a_torch_script_on_cleargrad(tmp_path: Path) -> None:
    ran = start(
        tmp_path,
        "--engine",
        "cleargrad",
        "train.py",
        torch="torch",
        clear="pass",
        last="print(torch.__version__)",
    )
    assert ran.returncode == 1
    assert "cleargrad" in ran.stdout and "gradient-reused" in ran.stderr


def test_a_healthy_script(tmp_path: Path) -> None:
    ran = start(tmp_path, "train.py")
    assert (ran.returncode, ran.stdout) == (0, "trained\n")


def test_a_script_that_fails_keeps_its_traceback(tmp_path: Path) -> None:
    ran = start(tmp_path, "train.py", clear="pass", last="1 / 0")
    assert ran.returncode == 1
    assert 'File "train.py", line 11, in <module>' in ran.stderr
    assert ran.stderr.index("ZeroDivisionError") < ran.stderr.index("gradient-reused")


def test_a_script_keeps_its_exit_status(tmp_path: Path) -> None:
    assert start(tmp_path, "train.py", clear="pass", last="sys.exit(7)").returncode == 7


def test_max_steps_ends_the_script(tmp_path: Path) -> None:
    ran = start(tmp_path, "--max-steps", "3", "train.py")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "3 steps" in ran.stderr


def test_ignored_rules_do_not_count(tmp_path: Path) -> None:
    ran = start(tmp_path, "--ignore", "gradient-reused", "train.py", clear="pass")
    assert ran.returncode == 0


def test_strict_raises(tmp_path: Path) -> None:
    ran = start(tmp_path, "--strict", "train.py", clear="pass")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "GradientError" in ran.stderr
