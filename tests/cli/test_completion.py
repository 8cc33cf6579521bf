"""Completion: what a shell offers, asked of the shell itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import NAMES, start


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "cleargrad.bash"
    path.write_text(start("completion", "bash").stdout)
    return path


def offered(script: Path, *words: str) -> list[str]:
    """What bash offers for the last word, which may be empty."""
    line = " ".join(f"'{word}'" for word in ("cleargrad", *words))
    program = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _cleargrad; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-ec", program], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def test_bash(bash_script: Path) -> None:
    assert sorted(offered(bash_script, "")) == sorted(NAMES)
    assert offered(bash_script, "do") == ["doctor"]
    assert offered(bash_script, "doctor", "--max") == ["--max-steps"]
    assert offered(bash_script, "doctor", "--engine", "t") == ["torch"]
    assert offered(bash_script, "completion", "") == ["bash", "zsh", "fish"]
    assert offered(bash_script, "--v") == ["--version"]
    assert "--published" not in offered(bash_script, "bench", "--")


def test_bash_leaves_files_to_itself(bash_script: Path) -> None:
    """Nothing of ours is offered where a path belongs, so that bash completes it."""
    assert offered(bash_script, "run", "") == []
    assert offered(bash_script, "demo", "--folder", "") == []
    assert "complete -o default" in bash_script.read_text()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_can_read_theirs(shell: str, tmp_path: Path) -> None:
    text = start("completion", shell).stdout
    assert all(name in text for name in (*NAMES, "max-steps", "engine"))
    assert text.count("'") % 2 == 0
    if shutil.which(shell) is not None:
        path = tmp_path / "script"
        path.write_text(text)
        done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(
    shutil.which("fish") is None, reason="fish is not installed (on Debian: apt-get install fish)"
)
def test_fish(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(start("completion", "fish").stdout)
    asked = f"source {path}; complete -C 'cleargrad do'; complete -C 'cleargrad doctor --engine '"
    done = subprocess.run(["fish", "-c", asked], capture_output=True, text=True, timeout=30)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["doctor", "cleargrad", "torch"]
