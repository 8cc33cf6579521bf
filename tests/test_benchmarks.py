"""The benchmark of training steps runs: its workers answer, agree on the losses, and what it writes is complete."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parent.parent


def test_train_step(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    command = [
        sys.executable,
        "benchmarks/train_step.py",
        "--quick",
        "--rounds",
        "2",
        "--workloads",
        "linear",
    ]
    done = subprocess.run(
        [*command, "--json", str(path)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(path.read_text())
    variants = found["workloads"]["linear"]["variants"]
    assert set(variants) == {"torch", "torch foreach", "torch fused", "cleargrad", "cleargrad compiled"}
    for row in variants.values():
        assert row["ms"] > 0 and row["ratio"] > 0 and row["peak, MB"] >= row["grown, MB"] > 0
        assert row["loss differs by"] < 1e-5
    assert "first calls cold, s" in variants["cleargrad compiled"]
    assert "warnings" not in variants["cleargrad compiled"]  # it has not fallen back to eager
    summary = found["summary"]["linear"]
    assert summary["bar"] == 0.10 and summary["compiled"] == variants["cleargrad compiled"]["ratio"]
    assert {"machine", "commit", "command", "torch"} <= found.keys()
    assert "Linear(10, 2), SGD, batch 1" in done.stdout
