"""The corpus: small training scripts, buggy and correct, on both engines.

A buggy script marks the line of its finding with `# <- rule`. A comment on top may say `# companions: rule, ...`,
findings that the same mistake brings with it; `# any-line: rule`, a finding whose line may differ; `# fails`, that
the script ends in an exception. A correct script must bring no error and no warning.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cleargrad.doctor.rules import load

CORPUS = Path(__file__).parent / "corpus"
ROOT = Path(__file__).parents[2]
BUGGY = sorted((CORPUS / "buggy").glob("*.py"))
CORRECT = sorted((CORPUS / "correct").glob("*.py"))
ENGINES = ("torch", "cleargrad")


@functools.cache
def results(engine: str) -> dict[str, Any]:
    """What the doctor says of every script, from one process per engine."""
    paths = [str(path) for path in (*BUGGY, *CORRECT)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "tests.doctor.run_corpus", engine, *paths]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def marked_lines(text: str) -> set[tuple[str, int]]:
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        for rule in re.findall(r"# <- ([a-z-]+)", line):
            found.add((rule, number))
    return found


def said_on_top(text: str, key: str) -> set[str]:
    found = re.search(rf"^# {key}: (.*)$", text, re.MULTILINE)
    return set() if found is None else {part.strip() for part in found[1].split(",")}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", BUGGY, ids=lambda path: path.stem)
def test_a_mistake_is_found_on_its_line(path: Path, engine: str) -> None:
    text, result = path.read_text(encoding="utf-8"), results(engine)[str(path)]
    assert result["failure"] is None, result["failure"]
    assert result["error"] is None or "\n# fails" in text, result["error"]
    found = {(finding["rule"], finding["line"]) for finding in result["findings"]}
    expected, any_line = marked_lines(text), said_on_top(text, "any-line")
    assert expected or any_line
    assert expected <= found, describe(result)
    assert any_line <= {rule for rule, _ in found}, describe(result)
    allowed = {rule for rule, _ in expected} | any_line | said_on_top(text, "companions")
    others = [
        each for each in result["findings"] if each["severity"] != "info" and each["rule"] not in allowed
    ]
    assert not others, describe(result)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", CORRECT, ids=lambda path: path.stem)
def test_a_correct_program_raises_no_alarm(path: Path, engine: str) -> None:
    result = results(engine)[str(path)]
    assert result["failure"] is None, result["failure"]
    assert result["error"] is None, result["error"]
    assert not [finding for finding in result["findings"] if finding["severity"] != "info"], describe(result)
    assert result["steps"] > 0 or "hand" in path.stem


def describe(result: dict[str, Any]) -> str:
    lines = [
        f"{each['severity']} {each['rule']} line {each['line']}: {each['message']}"
        for each in result["findings"]
    ]
    return "\n".join(lines) or "no findings"


@pytest.mark.parametrize("name", sorted({rule.name for rule in load().values()}))
def test_every_rule_has_a_page_that_quotes_a_real_finding(name: str) -> None:
    page = (ROOT / "docs" / "rules" / f"{name}.md").read_text(encoding="utf-8")
    script = re.search(r"corpus/buggy/(\w+)\.py", page)
    assert script is not None
    found = results("torch")[str(CORPUS / "buggy" / f"{script[1]}.py")]["findings"]
    messages = [each["message"] for each in found if each["rule"] == name]
    assert any(without_figures(message) in without_figures(page) for message in messages), messages


def without_figures(text: str) -> str:
    """Figures in scientific notation may differ in their last digits from machine to machine."""
    return re.sub(r"\d\.?\d*e[+-]\d+", "#", text)


def test_every_rule_is_in_the_corpus() -> None:
    marked = {rule for path in BUGGY for rule, _ in marked_lines(path.read_text(encoding="utf-8"))}
    assert {rule.name for rule in load().values()} <= marked
