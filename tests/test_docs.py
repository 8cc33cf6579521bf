"""The documentation is true: its code and its commands run, and ARCHITECTURE.md knows every file."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import cleargrad as torch

ROOT = Path(__file__).parent.parent
PACKAGE = Path(torch.__file__).parent
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


def tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
LISTS = ARCHITECTURE.split("## Around the package")[0]


def test_architecture_lists_every_file() -> None:
    """Once, with its own first lines; `python tools/file_rows.py` brings the lists up to date."""
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", LISTS, re.M)
    assert len(set(listed)) == len(listed)
    assert tool("file_rows").up_to_date(ARCHITECTURE) == ARCHITECTURE


def test_files_that_architecture_names_are_there() -> None:
    for path in set(re.findall(r"\b\w+/[\w/]+\.py\b", ARCHITECTURE)):
        assert (PACKAGE / path).exists() or (ROOT / path).exists(), path


# What to read next -----------------------------------------------------------------------------------------

YOURS = "cli/demo_script.py"  # is copied into a folder of the user's


def read_next(file: str) -> str | None:
    """The file that another one's docstring ends with: a path in the package, or in the same room."""
    text = ast.get_docstring(ast.parse((PACKAGE / file).read_text(encoding="utf-8"))) or ""
    found = re.search(r"Read\s+next:\s+([\w/.]+?)[,.]?(\s|$)", text)
    if found is None:
        return None
    in_room = f"{file.split('/')[0]}/{found[1]}"
    return in_room if (PACKAGE / in_room).exists() else found[1]


def followed(file: str | None) -> list[str]:
    """The files that are read, from one on, until one comes again."""
    seen: list[str] = []
    while file is not None and file not in seen and (PACKAGE / file).exists():
        seen.append(file)
        file = read_next(file)
    return seen


def test_what_to_read_next_is_there() -> None:
    for path in PACKAGE.rglob("*.py"):
        file = str(path.relative_to(PACKAGE))
        then = read_next(file)
        if then is None:
            assert file == YOURS, f"{file} does not say what to read next"
        else:
            assert (PACKAGE / then).exists() or (ROOT / then).exists(), f"{file} -> {then}"


def test_reading_on_leads_through_everything_that_is_drawn() -> None:
    """From the first file, and from the first of what a device makes of a schedule."""
    read = {*followed("errors.py"), *followed("devices/cpu/programs/program.py")}
    assert not {*stations(0), *stations(1)} - read


# The ways that are drawn -----------------------------------------------------------------------------------


def stations(number: int) -> list[str]:
    """The files of a drawing, in its order."""
    drawing = re.findall(r"^```\n(.*?)^```$", LISTS, re.S | re.M)[number]
    return [path for _, path in re.findall(r"^.{0,12}\b(\d+)  ([\w/]+\.py)", drawing, re.M)]


def entered(call: Callable[[], object]) -> set[str]:
    """The files of the package whose functions run in a call."""
    found = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        file = Path(frame.f_code.co_filename.partition(",")[0])  # code that a file writes is numbered
        if event == "call" and file.is_relative_to(PACKAGE):
            found.add(str(file.relative_to(PACKAGE)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.eager  # the drawing is of a call that is made at once
def test_the_way_of_an_op() -> None:
    way = stations(0)
    assert len(way) == 5
    x, y, grad = torch.randn(3, requires_grad=True), torch.randn(3), torch.ones(3)
    (x * y).backward(grad)
    forward = [entered(lambda: x * y) for _ in range(3)]  # now and then a call is looked at more closely
    assert min(forward, key=len) <= {*way, "errors.py"}  # which knows the user's line
    z = x * y
    assert {"autograd/node.py", "autograd/walk.py"} <= set(way) & entered(lambda: z.backward(grad))


def test_the_way_of_a_trace() -> None:
    way = stations(1)
    assert len(way) == 12
    weight = torch.randn(4, 4)
    step = torch.compile(lambda x: ((x @ weight).tanh() * 3).square().mean())
    x = torch.randn(37, 4)
    files: set[str] = set()
    for _ in range(3):
        files |= entered(lambda: step(x))
    assert set(way) <= files, set(way) - files


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
