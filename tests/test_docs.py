"""The documentation is true: its code and its commands run, and ARCHITECTURE.md knows every file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[tuple[str, Path]]:
    """The fenced blocks of all pages, with their page; no language means commands and what programs print."""
    fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
    found = [(kind, block, page) for page in PAGES for kind, block in fence.findall(page.read_text())]
    return [(block, page) for kind, block, page in found if kind == language]


def label(page: Path, number: int) -> str:
    return f"{page.relative_to(ROOT)}-{number}"


def numbered(found: list[tuple[str, Path]]) -> list:
    return [pytest.param(text, id=label(page, number)) for number, (text, page) in enumerate(found)]


@pytest.mark.parametrize("block", numbered(blocks("python")))
def test_code_block_runs(block: str, capsys: pytest.CaptureFixture) -> None:
    """Each Python block runs by itself; a comment behind a print says what it prints."""
    exec(compile(block, "block", "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out.splitlines()
    assert said == re.findall(r"^print\(.*?\)  # (.*)$", block, re.M)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "rules").glob("*-*.md")), ids=lambda page: page.stem)
def test_example_of_a_rule_is_in_the_corpus(page: Path) -> None:
    """What a page shows is a script that tests/doctor/test_corpus.py runs, without its opening lines."""
    found = re.findall(r"From `(tests/[^`]+)`:\n\n```py\n(.*?)```", page.read_text(), re.S)
    assert found
    for path, block in found:
        script = re.sub(r'\A(#[^\n]*\n)*""".*?"""\n+', "", (ROOT / path).read_text(), flags=re.S)
        assert re.sub(r"# <- [\w-]+", "# <- here", script).strip() == block.strip()


# Commands --------------------------------------------------------------------------------------------------

COMMANDS = sorted(
    {
        line.split("  #")[0].strip()
        for block, _ in blocks("")
        for line in block.splitlines()
        if re.match(r"cleargrad (-|[a-z]+( |$))", line)
    }
)
LONG = ("demo", "bench")  # they have tests of their own; here it is enough that they are understood
SCRIPT = """\
import cleargrad as torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile
def step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


for _ in range(4):
    print(step(torch.randn(8, 3)).item())
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script that is called as the pages call theirs, and the command on its path."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").touch()
    for path in ("train.py", "script.py", "your_script.py", "package/train.py"):
        (folder / path).write_text(SCRIPT)
    command = folder / "bin" / "cleargrad"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cleargrad "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.mark.parametrize("line", COMMANDS)
def test_command_is_understood(line: str) -> None:
    from cleargrad.cli import make_parser

    words = re.split(r" [>|] ", line)[0].split()[1:]
    if "--version" in words or "--help" in words:
        return
    assert "command" in make_parser().parse_args(words)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.split()[1] not in LONG])
def test_command_runs(line: str, project: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(
        line, shell=True, cwd=project, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Files -----------------------------------------------------------------------------------------------------


def test_architecture_lists_every_file() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    files = {str(path.relative_to(ROOT / "src/cleargrad")) for path in (ROOT / "src/cleargrad").rglob("*.py")}
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", text.split("## Around the package")[0], re.M)
    assert sorted(listed) == sorted(files)


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md"]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_site() -> None:
    """Pages that the navigation of mkdocs.yml leaves out could not be found."""
    text = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]}
    hidden = {page for page in pages if page not in text and not page.startswith(("rules/", "design/"))}
    assert not hidden
