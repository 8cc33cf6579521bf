"""The terminal report: complete without colour, in colour on a terminal, never wider than asked."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from cleargrad.doctor.reports import as_text
from tests.doctor.reports.runs import BUG, ENGINES, healthy, watch_script


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("engine", ENGINES)
def test_a_finding_is_told_in_full(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = as_text.write(watch_script(tmp_path, BUG, engine))
    assert text.startswith(
        "error  gradient-reused  train.py:11\n  step 2 used gradients of 2 backward calls;"
    )
    assert "\n    10 | loss.backward()\n  > 11 | optimizer.step()\n" in text
    assert "\n  - expected gradient of 0.bias " in text or "\n  - expected gradient of 0.weight " in text
    assert "\n  - seen 4 times, last in step 5\n" in text
    assert "\n  fix: optimizer.zero_grad() is missing before train.py:10\n" in text
    assert text.endswith("\n\ncleargrad doctor: 1 problem in 5 steps; 1 error")
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_nothing_found_is_one_line_that_says_what_was_watched(tmp_path: Path) -> None:
    text = as_text.write(watch_script(tmp_path, healthy()))
    expected = "cleargrad doctor: no problem found; watched 4 steps of Adam over 4 parameters, on cleargrad"
    assert " ".join(text.split()) == expected


def test_colour_is_for_terminals_and_changes_no_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    session = watch_script(tmp_path, BUG)
    coloured = as_text.write_for(Terminal(), session)
    assert "\x1b[1;31merror\x1b[0m" in coloured
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == as_text.write(session)
    assert as_text.write_for(io.StringIO(), session) == as_text.write(session)
    monkeypatch.setenv("NO_COLOR", "1")
    assert as_text.write_for(Terminal(), session) == as_text.write(session)


def test_narrow_terminals_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "50")
    session = watch_script(tmp_path, BUG)
    lines = as_text.write_for(Terminal(), session).splitlines()
    plain = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in lines]
    assert max(map(len, plain)) <= 50
    assert " ".join("".join(plain).split()) != ""


def test_known_findings_are_not_shown(tmp_path: Path) -> None:
    session = watch_script(tmp_path, BUG)
    text = as_text.write(session, list(session.findings))
    assert "gradient-reused" not in text
    assert "no problem found" in text and text.endswith("1 known and not counted")
