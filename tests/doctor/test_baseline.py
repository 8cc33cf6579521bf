"""Known findings: they do not count, they survive moved lines, and new ones are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleargrad.doctor import baseline
from tests.doctor.reports.runs import BUG, watch_script


def test_what_is_known_stays_known_until_the_line_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "known.json")
    session = watch_script(tmp_path, BUG)
    assert baseline.write(path, session.findings) == 1
    assert baseline.known_in(path, session.findings) == list(session.findings)

    moved = watch_script(tmp_path, "# a line more\n" + BUG)
    assert baseline.known_in(path, moved.findings) == list(moved.findings)

    changed = watch_script(tmp_path, BUG.replace("optimizer.step()", "optimizer.step(None)"))
    assert len(changed.findings) == 1 and baseline.known_in(path, changed.findings) == []
