"""The site builds, and what scripts write into pages is what they would write now."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import cleargrad

ROOT = Path(__file__).parent.parent


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_source() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}


def test_tables_of_results_are_the_results() -> None:
    """`python tools/result_tables.py` brings them up to date."""
    tables = tool("result_tables")
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- results:" in text
        assert text == tables.filled(text), f"{page.name} differs from benchmarks/results"


def test_readme_has_no_other_numbers_in_tables() -> None:
    """A figure in a table of the README comes from a file in benchmarks/results."""
    text = re.sub(r"<!-- results:.*?<!-- end -->", "", (ROOT / "README.md").read_text(), flags=re.S)
    assert not re.findall(r"(?m)^\|.*\d.*\|$", text)


def test_support_table_is_fresh() -> None:
    """`python tools/support_table.py` brings it up to date."""
    # In a process of its own: other tests declare ops, which would be listed.
    program = "import support_table as s, sys; sys.exit(s.PAGE.read_text(encoding='utf-8') != s.page())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT / "tools", env=with_source(), timeout=120)
    assert done.returncode == 0


def test_reference_has_an_entry_for_every_function() -> None:
    pages = tool("api_pages").pages()
    assert "`Adam(params, lr=0.001" in pages["optim.md"]
    assert "`accumulate(" in pages["cleargrad.md"] and "matmul(" in pages["cleargrad.md"]
    assert "backward(" in pages["tensor.md"]
    assert all(len(text.splitlines()) > 8 for text in pages.values())


def test_version_is_the_same_everywhere() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["project"]["version"] == cleargrad.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", cleargrad.__version__)


def test_figures_are_readable_by_themselves() -> None:
    """An image in a page may load nothing, and shows no path of the machine that drew it."""
    for figure in (ROOT / "docs" / "figures").glob("*.svg"):
        text = figure.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "http" not in text and "@import" not in text and "/home/" not in text, figure.name


def test_site_builds(tmp_path: Path) -> None:
    """Every link and page of the navigation exists, and nothing is loaded from elsewhere."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=with_source(), capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index.html", "rules/gradient-reused.html", "api/optim.html", "architecture.html"):
        text = (tmp_path / page).read_text(encoding="utf-8")
        assert not re.findall(r'(?:src|<link[^>]*href)="(?:https?:)?//[^"]*"', text), page
