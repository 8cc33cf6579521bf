"""`cleargrad bench`: the smallest workload, from start to page; and figures from known times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleargrad.bench import results
from cleargrad.bench.architectures import MORE
from cleargrad.bench.report import chart_of, page_of, summary_text, workload_text
from cleargrad.bench.runner import Runner
from cleargrad.bench.variants import VARIANTS, left_out, variants_of
from cleargrad.bench.workloads import WORKLOADS
from cleargrad.cli import bench as command
from cleargrad.cli import make_parser
from tests.cli.commands import start


def test_quick(tmp_path: Path) -> None:
    words = ["--quick", "--workloads", "linear", "--threads", "1", "--rounds", "2"]
    done = start("bench", *words, "--variants", "cleargrad,cleargrad compiled", folder=tmp_path)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    found = json.loads((tmp_path / "cleargrad-bench/results.json").read_text())
    rows = found["workloads"]["linear"]["variants"]
    assert list(rows) == ["cleargrad", "cleargrad compiled"]
    assert all(row["ms"] > 0 and len(row["spread"]) == 2 for row in rows.values())
    assert rows["cleargrad compiled"]["loss differs by"] < 1e-5
    assert found["command"] == f"cleargrad bench {' '.join(words)} --variants cleargrad,cleargrad compiled"
    page = (tmp_path / "cleargrad-bench/results.html").read_text()
    assert "<svg" in page and "cleargrad compiled" in page
    assert max(map(len, done.stdout.splitlines())) <= 80 and "\x1b" not in done.stdout


def made(name: str, times: list[float], loss: float = 1.0) -> Runner:
    facts = {"calls": [0.1] * 8, "losses": [loss] * 8, "warnings": [], "peak": 100.0, "grown": 10.0}
    return Runner("mlp", name, 1, "", facts, times)


def figures(*runners: Runner) -> dict:
    return results.results({runner.name: runner for runner in runners})


def test_ratios_are_to_the_best_pytorch() -> None:
    found = figures(
        made("torch", [4.0, 4.0, 4.0]),
        made("torch fused", [2.0, 2.0, 2.0]),
        made("jax compiled", [1.0, 1.0, 1.0]),
        made("cleargrad", [1.0, 2.0, 4.0]),
    )
    assert found["best"] == "torch fused"
    assert found["variants"]["jax compiled"]["ratio"] == 0.5
    ours = found["variants"]["cleargrad"]
    assert ours["ratio"] == 1 and ours["spread"] == [0.5, 2.0]
    assert "over PyTorch's best" in chart_of({"mlp": found}).title


def test_a_quicker_library_than_pytorch_is_told() -> None:
    found = figures(
        made("torch", [4.0]),
        made("jax compiled", [2.0]),
        made("tinygrad compiled", [0.5], loss=1.1),
        made("cleargrad compiled", [3.0]),
    )
    row = results.summary({"mlp": found})["mlp"]
    assert row["compiled"] == 0.75 and row[results.OTHERS] == 1.5  # tinygrad's losses are others
    assert f"{results.OTHERS}: mlp 1.500" in summary_text({"mlp": row}, None)


def test_a_rival_with_other_losses_is_none() -> None:
    found = figures(
        made("torch", [4.0]), made("torch fused", [2.0], loss=1.1), made("cleargrad", [2.0], loss=1.1)
    )
    assert found["best"] == "torch"
    assert results.differing({"mlp": found}) == ["mlp, cleargrad"]
    assert "LOSSES DIFFER" in workload_text("mlp", found)


def test_without_pytorch() -> None:
    assert figures(made("jax compiled", [2.0]), made("cleargrad", [1.0]))["best"] == "jax compiled"
    alone = figures(made("cleargrad", [2.0]), made("cleargrad compiled", [1.0]))
    assert alone["best"] == "cleargrad" and results.reference({"mlp": alone}) == "its own eager steps"


def test_a_failure_is_told() -> None:
    broken = made("torch", [])
    broken.failure = "OSError: no compiler"
    found = figures(broken, made("cleargrad", [1.0]))
    assert found["variants"]["torch"] == {"failure": "OSError: no compiler"}
    text = workload_text("mlp", found)
    assert "failed: OSError: no compiler" in text
    assert page_of({"machine": "m", "threads": 1}, {"mlp": found}, []).count("<tr>") > 2
    assert [bar.name for bar in chart_of({"mlp": found}).groups[f"mlp: {WORKLOADS['mlp'].title}"]] == [
        "cleargrad"
    ]
    assert max(map(len, f"{text}\n{summary_text(results.summary({'mlp': found}), None)}".splitlines())) <= 80


def test_variants_that_make_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    from cleargrad.bench import variants

    monkeypatch.setattr(variants, "installed", lambda name: None if name == "jax" else "1")
    assert "torch compiled model" not in variants_of("adam", list(VARIANTS), torch_compile=True)
    assert "bandwidth floor" in variants_of("adam", list(VARIANTS), torch_compile=True)
    assert "bandwidth floor" not in variants_of("mlp", list(VARIANTS), torch_compile=True)
    assert "torch compiled step" not in variants_of("mlp", list(VARIANTS), torch_compile=False)
    assert "jax compiled" not in variants_of("mlp", list(VARIANTS), torch_compile=False)
    assert "tinygrad compiled" in variants_of("mlp", list(VARIANTS), torch_compile=False)
    assert "tinygrad compiled" not in variants_of("lstm", list(VARIANTS), torch_compile=False)
    assert left_out(["mlp", "lstm"]) == [
        "jax is not installed and not compared.",
        "tinygrad is not compared on what is not written for it: lstm.",
    ]
    monkeypatch.setattr(variants, "installed", lambda name: "1")
    assert "jax compiled" in variants_of("mlp", list(VARIANTS), torch_compile=False)
    assert "jax is not compared on what is not written for it: vit." in left_out(["mlp", "vit"])
    assert left_out(["mlp", "gpt"]) == []


def test_help_names_what_there_is() -> None:
    listed = " ".join(command.EPILOG.split())
    for kind, names in (("workloads", WORKLOADS), ("more", MORE), ("variants", VARIANTS)):
        assert f"{kind}: {', '.join(names)}" in listed


@pytest.mark.parametrize(
    ("words", "is_whole"),
    [
        ([], True),
        (["--no-torch-compile"], False),
        (["--quick"], False),
        (["--workloads", "more", "--no-torch-compile"], True),
        (["--workloads", "mlp,vit"], False),
    ],
)
def test_only_a_whole_run_is_published(words: list[str], is_whole: bool) -> None:
    options = make_parser(["bench"]).parse_args(["bench", "--published", "somewhere", *words])
    workloads, plan, found = command.planned(options)
    assert found == is_whole
    assert workloads == (
        list(MORE) if "more" in words else ["mlp", "vit"] if "mlp,vit" in words else list(WORKLOADS)
    )
    assert plan.torch_compile == (words in ([], ["--workloads", "mlp,vit"]))


def test_rows_without_bars() -> None:
    found = {"vit": figures(made("torch", [4.0]), made("cleargrad compiled", [1.0]))}
    rows = results.summary(found)
    assert rows["vit"]["bar"] is None and rows["vit"]["compiled"] == 0.25
    assert "0.250" in summary_text(rows, None)
    text = summary_text(dict.fromkeys(MORE, rows["vit"]), None)
    assert max(map(len, text.splitlines())) <= 80 and "mobilenet" in text
