"""The JSON report: the documented fields, figures that are true, and nothing that a strict reader refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cleargrad.doctor.reports import as_json
from tests.doctor.reports.runs import BACKWARD_LINE, BUG, ENGINES, STEP_LINE, healthy, watch_script

PAGE = Path(__file__).parents[3] / "docs/doctor-json.md"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_report_of_a_forgotten_zero_grad(tmp_path: Path, engine: str) -> None:
    report = json.loads(as_json.write(watch_script(tmp_path, BUG, engine)))
    (finding,) = report["findings"]
    assert (finding["rule"], finding["severity"], finding["line"]) == ("gradient-reused", "error", STEP_LINE)
    assert finding["step"] == 2 and finding["last_step"] == 5 and finding["count"] == 4
    assert finding["parameters"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert report["engine"] == engine and report["steps"] == 5 and len(report["parameters"]) == 4
    for gradient in finding["facts"]["gradients"]:
        assert len(gradient["expected"]) == len(gradient["actual"]) > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_buckets_over_the_steps(tmp_path: Path, engine: str) -> None:
    timeline = as_json.contents(watch_script(tmp_path, BUG, engine))["timeline"]
    (bucket,) = timeline["buckets"]  # all parameters have one history
    kinds = [moment["kind"] for moment in timeline["moments"]]
    assert kinds == ["backward", "step"] * 5
    assert {moment["line"] for moment in timeline["moments"][::2]} == {BACKWARD_LINE}
    held = [(len(cell["live"]), cell["used"], cell["reused"]) for cell in bucket["moments"]]
    assert held == [pair for n in range(1, 6) for pair in ((n, n - 1, 0), (n, n, n - 1))]


@pytest.mark.parametrize("engine", ENGINES)
def test_steps_by_hand_are_steps(tmp_path: Path, engine: str) -> None:
    update = "    for p in model.parameters():\n        p.data -= 0.01 * p.grad\n"
    text = re.sub("optimizer = .*\n", "", BUG).replace("    optimizer.step()\n", update)
    report = as_json.contents(watch_script(tmp_path, text, engine))
    assert [(finding["rule"], finding["line"]) for finding in report["findings"]] == [("gradient-reused", 11)]
    moments = report["timeline"]["moments"]
    assert [moment["kind"] for moment in moments] == ["backward", "step"] * 4 + ["backward"]
    assert "by hand" in moments[1]["what"]


def test_a_healthy_bucket_is_emptied(tmp_path: Path) -> None:
    timeline = as_json.contents(watch_script(tmp_path, healthy(3, parts=2)))["timeline"]
    (bucket,) = timeline["buckets"]
    kinds = [moment["kind"] for moment in timeline["moments"]]
    assert kinds == ["zero", "backward", "backward", "clip", "step"] * 3
    assert [len(cell["live"]) for cell in bucket["moments"]] == [0, 1, 2, 2, 2] * 3
    assert not any(cell["reused"] for cell in bucket["moments"])


@pytest.mark.parametrize("engine", ENGINES)
def test_sizes_by_layer(tmp_path: Path, engine: str) -> None:
    sizes = as_json.contents(watch_script(tmp_path, healthy(4, optimizer="SGD"), engine))["sizes"]
    assert [row["layer"] for row in sizes] == ["0", "2"]
    for row in sizes:
        assert row["steps"] == [1, 2, 3, 4]
        for gradient, update in zip(row["gradient"], row["update"], strict=True):
            assert update == pytest.approx(0.01 * gradient, rel=1e-2)


def test_a_long_run_is_bounded(tmp_path: Path) -> None:
    session = watch_script(tmp_path, healthy(700))
    report = as_json.contents(session)
    steps = sorted({moment["step"] for moment in report["timeline"]["moments"]})
    assert steps == [*range(1, 9), *range(697, 701)]
    assert sum(moment["after_gap"] for moment in report["timeline"]["moments"]) == 1
    assert all(len(row["steps"]) <= 240 for row in report["sizes"])
    assert report["sizes"][0]["steps"][0] == 1


def test_steps_around_a_late_finding_are_kept(tmp_path: Path) -> None:
    late = healthy(1200).replace("    optimizer.zero_grad", "    if step != 900: optimizer.zero_grad")
    report = as_json.contents(watch_script(tmp_path, late))
    assert [finding["step"] for finding in report["findings"]] == [901]
    steps = {moment["step"] for moment in report["timeline"]["moments"]}
    assert {899, 900, 901, 902} <= steps and 500 not in steps
    (bucket,) = report["timeline"]["buckets"]
    assert [cell["reused"] for cell in bucket["moments"] if cell["reused"]] == [1]


def test_many_passes_in_a_step_are_merged(tmp_path: Path) -> None:
    report = as_json.contents(watch_script(tmp_path, healthy(2, parts=40)))
    passes = [moment["passes"] for moment in report["timeline"]["moments"] if moment["kind"] == "backward"]
    assert len(passes) <= 24 and sum(map(len, passes)) == 80
    (bucket,) = report["timeline"]["buckets"]
    assert max(len(cell["live"]) + cell["older"] for cell in bucket["moments"]) == 40


def test_json_has_no_words_of_its_own_for_infinity() -> None:
    assert as_json.plain({"a": [float("inf"), float("-inf"), float("nan"), 1.5], 2: None}) == {
        "a": ["inf", "-inf", "nan", 1.5],
        "2": None,
    }


def test_the_documentation_names_every_field(tmp_path: Path) -> None:
    report = as_json.contents(watch_script(tmp_path, BUG))
    documented = set(re.findall(r"^\| `(\w+)`", PAGE.read_text(), re.M))
    fields = (
        set(report) | set(report["findings"][0]) | set(report["parameters"][0]) | set(report["optimizers"][0])
    )
    fields |= set(report["sizes"][0]) | set(report["timeline"]) | set(report["timeline"]["moments"][0])
    fields |= set(report["timeline"]["buckets"][0]) | set(report["timeline"]["buckets"][0]["moments"][0])
    assert fields == documented


def test_a_session_saves_itself_and_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    session = watch_script(tmp_path, BUG)
    for ending, start in ((".json", "{"), (".sarif", "{"), (".html", "<!doctype html>"), (".txt", "error")):
        session.save(str(tmp_path / f"report{ending}"))
        assert (tmp_path / f"report{ending}").read_text().startswith(start)
    assert session._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert str(session).endswith("1 problem in 5 steps; 1 error")
