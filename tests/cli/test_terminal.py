"""What commands share: progress for terminals, notebooks and pipes, and folders for files."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from cleargrad.cli import terminal


def test_nobody_watches(capfd: pytest.CaptureFixture) -> None:
    with terminal.progress("title", 10) as advance:
        advance(5, "half")
    assert capfd.readouterr() == ("", "")


def test_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of output, written anew: no widgets are needed."""
    shown: list[str] = []

    class Line:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data["text/plain"])

    class ZMQInteractiveShell:
        pass

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Any:
        shown.append(data["text/plain"])
        return Line()

    shell, module = ModuleType("IPython"), ModuleType("IPython.display")
    shell.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    with terminal.progress("forgetful.py", 10) as advance:
        advance(5, "loss 1.00")
    assert shown == ["forgetful.py", "forgetful.py  50%  loss 1.00", ""]


def test_folder_that_cannot_be_made(tmp_path: Any) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(terminal.CommandError, match="cannot write to the folder"):
        terminal.make_folder("cleargrad demo", tmp_path / "file" / "inside")
    terminal.make_folder("cleargrad demo", tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
