"""What notebooks show: tensors, modules, findings and the ledger; and the example notebook runs from its top."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbclient
import nbformat
import pytest

import cleargrad as torch
from cleargrad import doctor, nn
from cleargrad.errors import known_as
from cleargrad.notebook import Rows

EXAMPLE = Path(__file__).parent.parent / "examples" / "first_steps.ipynb"


def text_in(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", html)


def test_tensor_shows_facts_above_its_numbers() -> None:
    html = torch.tensor([[1.0, -2.0, float("nan")]], requires_grad=True)._repr_html_()
    assert "float32 · 1 × 3 · 12 B · from -2 to 1 · mean -0.5 · 1 not finite · needs a gradient" in html
    assert "tensor([[ 1., -2., nan]], requires_grad=True)" in html


@pytest.mark.parametrize(
    "tensor", [torch.zeros(0, 3), torch.ones(2, dtype=torch.bool), torch.ones(2, dtype=torch.complex64)]
)
def test_any_tensor_can_be_shown(tensor: Any) -> None:
    assert repr(tensor) in tensor._repr_html_()


def test_single_number_is_shown_as_text() -> None:
    assert torch.tensor(1.5)._repr_html_() is None


def test_names_are_text_and_not_html() -> None:
    class Odd(nn.Module):
        def extra_repr(self) -> str:
            return "<script>"

    assert "<script>" not in Odd()._repr_html_() and "&lt;script&gt;" in Odd()._repr_html_()


def test_module_counts_parameters() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    text = text_in(model._repr_html_())
    assert "26 parameters, 104 B; 10 of them are trained" in text
    assert "Linear(in_features=3, out_features=4, bias=True)" in text and "frozen" in text


def test_shared_parameter_is_counted_once() -> None:
    model = nn.ModuleDict({"embed": nn.Embedding(5, 2), "head": nn.Linear(2, 5, bias=False)})
    model["head"].weight = model["embed"].weight
    assert "10 parameters" in text_in(model._repr_html_())


def watched_without_zero_grad() -> Any:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with doctor.watch(model, optimizer, warn=False) as watched:
        for _ in range(8):
            model(torch.ones(3, 2)).sum().backward()
            optimizer.step()
    return watched


def test_findings_and_ledger() -> None:
    watched = watched_without_zero_grad()
    text = text_in(watched.findings._repr_html_())
    assert "gradient-reused" in text and "optimizer.step()" in text and "zero_grad() is missing" in text
    assert text_in(next(iter(watched.findings))._repr_html_()) == text
    table = watched.ledger.table()
    assert isinstance(table, list) and table[0]["parameter"] == "weight"
    assert "weight" in str(table) and "and 5 more" in str(table)
    assert watched.ledger._repr_html_() == table._repr_html_()
    assert watched.findings.__class__()._repr_html_() == "<i>no findings</i>"


def test_rows_without_rows() -> None:
    assert str(Rows()) == "(no rows)" and Rows()._repr_html_()


def test_cell_is_called_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={"/tmp/ipykernel_1/2.py": 7}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert known_as("/tmp/ipykernel_1/2.py") == "In[7]" and known_as("train.py") == "train.py"


# The example -------------------------------------------------------------------------------------------------


def run_cell(source: str, names: dict) -> Any:
    """What a cell ends in, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_example_runs_and_shows_what_it_says(capsys: pytest.CaptureFixture) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in json.loads(EXAMPLE.read_text())["cells"] if cell["cell_type"] == "code"]
    shown = [run_cell("".join(cell["source"]), names) for cell in cells]
    pages = [value._repr_html_() for value in shown if value is not None]
    assert any("gradient-reused" in page for page in pages) and "no findings" in pages[-1]
    wrong, right = map(int, re.findall(r"(\d+)%", capsys.readouterr().out))
    assert right > 90 > 60 > wrong
    assert not any(cell["outputs"] for cell in cells)


def test_example_runs_in_a_kernel() -> None:
    book = nbformat.read(EXAMPLE, as_version=4)
    nbclient.NotebookClient(book, timeout=120).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [output["data"].get("text/html", "") for output in outputs if "data" in output]
    assert any("gradient-reused" in page and "In[3]:12" in page for page in pages)
