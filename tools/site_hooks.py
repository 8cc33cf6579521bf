"""What mkdocs asks while it builds the site: pages that are no files of docs/, and their place in the navigation.

The API reference is made from the package; ARCHITECTURE.md and CHANGELOG.md stand in the root. Rules and design
records are listed from their folders, so that a new one needs no edit of mkdocs.yml. Read next: tools/api_pages.py.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "src")]

import api_pages  # noqa: E402

FROM_THE_ROOT = {"architecture.md": "ARCHITECTURE.md", "changelog.md": "CHANGELOG.md"}


def title(path: Path) -> str:
    return re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.M).group(1).replace("`", "")


def listed(folder: str) -> list[Any]:
    """A folder's pages, its README first and the others as the README lists them."""
    place = ROOT / "docs" / folder
    order = re.findall(r"\]\(([\w-]+\.md)\)", (place / "README.md").read_text(encoding="utf-8"))
    names = [
        *dict.fromkeys(order),
        *sorted(path.name for path in place.glob("*.md") if path.name not in order),
    ]
    names = [name for name in names if name != "README.md"]
    return [f"{folder}/README.md", *({title(place / name): f"{folder}/{name}"} for name in names)]


def reference() -> list[Any]:
    paths = {path: f"api/{api_pages.file_of(path)}" for path in api_pages.PAGES}
    return ["api/index.md", *({path.removeprefix("cleargrad."): file} for path, file in paths.items())]


def on_config(config: Any) -> Any:
    """Fills the parts of the navigation that follow from files."""
    lists = {"rules": lambda: listed("rules"), "design": lambda: listed("design"), "api": reference}

    def filled(entry: Any) -> Any:
        if isinstance(entry, list):
            return [filled(each) for each in entry]
        if isinstance(entry, dict):
            return {name: filled(value) for name, value in entry.items()}
        return lists[entry[1:-1]]() if entry.startswith("<") else entry

    config.nav = filled(config.nav)
    return config


def on_files(files: Files, config: Any) -> Files:
    for name, source in FROM_THE_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    for name, text in api_pages.pages().items():
        files.append(File.generated(config, f"api/{name}", content=text))
    return files
