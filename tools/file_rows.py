"""Brings the lists of files in ARCHITECTURE.md up to date: a row says what the first lines of its file say.

Rows keep their order, which is that of reading, since people chose it. A file that is gone loses its row; a new one
gets a row behind its nearest neighbour, from where it may be moved. Read next: tools/site_hooks.py.

python tools/file_rows.py
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "cleargrad"
PAGE = ROOT / "ARCHITECTURE.md"
ROW = re.compile(r"\| `([\w/]+\.py)` \|")
END = "## Around the package"  # what comes behind it is written by hand


def described(file: str) -> str:
    """The first paragraph of a file's docstring, on one line."""
    text = ast.get_docstring(ast.parse((PACKAGE / file).read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split("Read next:")[0].split())


def up_to_date(page: str) -> str:
    """The page with a row for every file."""
    lists, rest = page.split(END)
    files = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    lines = [line for line in lists.split("\n") if file_of(line) in {None, *files}]
    for file in sorted(files - set(map(file_of, lines))):
        lines.insert(1 + neighbour(file, lines), row(file))
    return "\n".join([row(file) if (file := file_of(line)) else line for line in lines]) + END + rest


def file_of(line: str) -> str | None:
    """The file that a row is about; None for all other lines."""
    found = ROW.match(line)
    return found and found[1]


def row(file: str) -> str:
    return f"| `{file}` | {described(file)} |"


def neighbour(new: str, lines: list[str]) -> int:
    """The number of the last row whose file shares most of the way with a new one."""

    def shared(number: int) -> int:
        file = file_of(lines[number])
        return -1 if file is None else len(os.path.commonpath([os.path.dirname(new), file]))

    return max(range(len(lines)), key=lambda number: (shared(number), number))


if __name__ == "__main__":
    PAGE.write_text(up_to_date(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
