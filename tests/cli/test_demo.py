"""`cleargrad demo`: it is quick, shows the finding and the cure, and writes what it says."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from cleargrad.cli.demo import next_steps
from tests.cli.commands import start, start_in_terminal


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, float]:
    """The folder, what was printed, and the seconds of processor time, with nothing compiled before."""
    folder = tmp_path_factory.mktemp("demo")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = start("demo", folder=folder, CLEARGRAD_CACHE=str(folder / "cache"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return folder, done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_finds_and_cures(demo: tuple[Path, str, float]) -> None:
    _, text, _ = demo
    wrong, right = text.split("2. The same script")
    assert re.search(r"error  gradient-reused\s+cleargrad-demo/forgetful.py:\d+ in step", wrong)
    assert "fix: optimizer.zero_grad() is missing before forgetful.py:" in wrong
    accuracies = [float(found) for found in re.findall(r"accuracy ([\d.]+)%", text)]
    assert accuracies[0] < 30 and accuracies[1] > 90
    assert re.search(r"One native program: [\d.]+ ms a step, [\d.]+ uncompiled", right)
    commands = re.findall(r"^  .*cleargrad (\w+) ", text.split("Try next")[1], re.M)
    assert commands == ["doctor", "explain", "run"]


def test_is_quick(demo: tuple[Path, str, float]) -> None:
    """Processor time, because other tests run beside this one; 30 s is the promise, and half of it the rule."""
    assert demo[2] < 15


def test_is_plain_and_narrow(demo: tuple[Path, str, float]) -> None:
    _, text, _ = demo
    assert "\x1b" not in text and "\r" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_draws_both_curves(demo: tuple[Path, str, float]) -> None:
    _, text, _ = demo
    picture = text.split("held back\n")[1].split("Written to")[0]
    assert re.search(r"[⠁-⣿]{20,} right 9\d", picture) and "no zero_grad" in picture


def test_writes_what_it_says(demo: tuple[Path, str, float]) -> None:
    folder, text, _ = demo
    named = re.findall(r"Written to cleargrad-demo/: (.*)", text)[0].split(", ")
    assert {"forgetful.py", "right.py", "curves.html"} <= set(named)
    assert all((folder / "cleargrad-demo" / name).stat().st_size > 0 for name in named)
    page = (folder / "cleargrad-demo" / "curves.html").read_text()
    assert page.count("<svg") == 2 and page.count("<polyline") == 4 and "prefers-color-scheme: dark" in page
    assert "gradient-reused" in page and not re.search(r"(src|href)=", page)


def test_the_scripts_differ_by_one_line(demo: tuple[Path, str, float]) -> None:
    folder = demo[0] / "cleargrad-demo"
    right, forgetful = ((folder / name).read_text().splitlines() for name in ("right.py", "forgetful.py"))
    right.remove("        optimizer.zero_grad()")
    assert right == forgetful


def test_what_to_try_next_works(demo: tuple[Path, str, float]) -> None:
    folder, text, _ = demo
    command = re.findall(r"^  .*cleargrad (doctor \S+)", text, re.M)[0].split()
    found = start(command[0], "--max-steps", "3", command[1], folder=folder)
    assert found.returncode == 1 and "gradient-reused" in found.stderr
    explained = start("explain", "--max-steps", "2", "cleargrad-demo/right.py", folder=folder)
    assert explained.returncode == 0 and (folder / "explained.html").exists(), explained.stderr
    alone = [sys.executable, "cleargrad-demo/right.py", "--compile"]
    printed = subprocess.run(alone, cwd=folder, capture_output=True, text=True, timeout=120)
    assert re.search(r"step  1000   loss 0\.\d+   accuracy 9\d", printed.stdout), printed.stderr


def test_commands_can_be_typed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`./demo` runs a cleargrad that is not on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / ".venv/bin/cleargrad"), "demo"])
    assert "  .venv/bin/cleargrad doctor cleargrad-demo/forgetful.py\n" in next_steps(Path("cleargrad-demo"))
    monkeypatch.setattr(sys, "argv", ["cleargrad/__main__.py", "demo"])
    assert "  python -m cleargrad run your_script.py\n" in next_steps(Path("cleargrad-demo"))
    (tmp_path / "cleargrad").touch(0o755)
    shown = next_steps(Path("cleargrad-demo"))
    assert "  cleargrad run your_script.py " in shown and max(map(len, shown.splitlines())) <= 80


def test_progress_in_a_terminal(tmp_path: Path) -> None:
    status, shown = start_in_terminal("demo", "--steps", "200", folder=tmp_path)
    assert status == 0
    assert re.search(r"forgetful\.py .*%.*loss [\d.]+ +accuracy +\d+% +[\d,]+ steps/s", shown)
    assert "\x1b[31m" in shown  # a curve in colour
    visible = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)
    assert max(len(line) for part in visible.split("\n") for line in part.split("\r")) <= 80


def test_terminals_without_braille(tmp_path: Path) -> None:
    done = start("demo", "--steps", "60", folder=tmp_path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0 and done.stdout.isascii(), done.stderr
    assert re.search(r"\|.*x", done.stdout)


def test_few_steps_are_refused(tmp_path: Path) -> None:
    done = start("demo", "--steps", "3", folder=tmp_path)
    assert done.returncode == 2 and "--steps must be at least 20" in done.stderr


def test_picture(tmp_path: Path) -> None:
    from cleargrad.charts import Curve, Curves, as_png

    chart = Curves("loss", "step", [Curve("a", [1.0, 2.0], [3.0, 0.1], 0)], is_logarithmic=True)
    assert as_png.save(tmp_path / "a.png", [chart])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
