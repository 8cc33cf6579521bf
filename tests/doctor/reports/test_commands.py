"""What `cleargrad doctor` and `cleargrad explain` write, as a continuous integration would call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cleargrad.doctor.findings import SEVERITIES
from cleargrad.doctor.rules import load
from tests.doctor.reports.runs import BUG, healthy

SOURCE = Path(__file__).parents[3] / "src"


def command(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(script)
    return subprocess.run(
        [sys.executable, "-m", "cleargrad", *arguments, "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def doctor(folder: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    return command(folder, script, "doctor", "--engine", "cleargrad", *options)


def test_all_reports_of_one_run(tmp_path: Path) -> None:
    script = "import os\n" + BUG + "print('done')\nos.chdir('/')\n"
    done = doctor(tmp_path, script, "--json", "a.json", "--html", "a.html", "--sarif", "a.sarif")
    assert done.returncode == 1
    assert done.stdout == "done\n"
    assert "> 12 |     optimizer.step()" in done.stderr  # although the program has gone to another folder
    assert json.loads((tmp_path / "a.json").read_text())["findings"][0]["rule"] == "gradient-reused"
    assert json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"]
    assert "gradient-reused" in (tmp_path / "a.html").read_text()


def test_a_misspelt_rule_is_told(tmp_path: Path) -> None:
    done = doctor(tmp_path, BUG, "--ignore", "gradient-reuse")
    assert done.returncode == 2 and "there is no rule 'gradient-reuse'" in done.stderr


def test_rules_are_listed_in_one_line_each(tmp_path: Path) -> None:
    done = command(tmp_path, "raise SystemExit('never run')", "doctor", "--rules")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == ""
    assert {line.split()[0] for line in lines} == {rule.name for rule in load().values()}
    assert all(line.split()[1] in SEVERITIES and len(line.split()) > 4 for line in lines)


def test_baseline(tmp_path: Path) -> None:
    missing = doctor(tmp_path, BUG, "--baseline", "known.json")
    assert missing.returncode == 1 and not (tmp_path / "known.json").exists()
    written = doctor(tmp_path, BUG, "--baseline", "known.json", "--write-baseline")
    assert written.returncode == 0 and "lists 1 known finding now" in written.stderr
    known = doctor(tmp_path, "# moved\n" + BUG, "--baseline", "known.json")
    assert known.returncode == 0 and "1 known and not counted" in known.stderr


@pytest.mark.parametrize("engine", ("cleargrad", "torch"))
def test_explain(tmp_path: Path, engine: str) -> None:
    script = healthy(3) + "print('done')\n"
    done = command(tmp_path, script, "explain", "--engine", engine, "--html", "lesson.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    words = " ".join(done.stderr.split())
    assert "4 of them leaves" in words
    assert "Step 2, Gradients are cleared at train.py:9: .grad of 4 parameters became None." in words
    assert "Step 1, step() at train.py:14: Adam moved 4 parameters" in words
    assert "The graph of the first step" in (tmp_path / "lesson.html").read_text()
