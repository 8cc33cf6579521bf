"""The documentation is true: its code runs, and ARCHITECTURE.md knows every file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_block_runs(block: str, capsys: pytest.CaptureFixture) -> None:
    """Each Python block runs by itself; a comment behind a print says what it prints."""
    exec(compile(block, "block", "exec"), {"__name__": "__main__"})
    expected = re.findall(r"^print\(.*?\)  # (.*)$", block, re.M)
    assert capsys.readouterr().out.splitlines() == expected


def test_architecture_lists_every_file() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    files = {str(path.relative_to(ROOT / "src/cleargrad")) for path in (ROOT / "src/cleargrad").rglob("*.py")}
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", text.split("## Around the package")[0], re.M)
    assert sorted(listed) == sorted(files)


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
