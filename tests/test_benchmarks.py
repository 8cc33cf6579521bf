"""The benchmark of training steps runs: its workers answer, agree on the losses, and what it writes is complete."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_train_step(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    names = ["torch", "cleargrad", "cleargrad compiled"]
    words = ["--quick", "--rounds", "2", "--threads", "1", "--workloads", "linear"]
    words += ["--variants", ",".join(names), "--json", str(path)]
    command = [sys.executable, str(ROOT / "benchmarks" / "train_step.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(path.read_text())
    variants = found["workloads"]["linear"]["variants"]
    assert list(variants) == names
    for row in variants.values():
        assert row["ms"] > 0 and row["ratio"] > 0 and row["peak, MB"] >= row["grown, MB"] > 0
        assert row["loss differs by"] < 1e-5
    assert "first calls cold, s" in variants["cleargrad compiled"]
    assert "warnings" not in variants["cleargrad compiled"]  # it has not fallen back to eager
    summary = found["summary"]["linear"]
    assert summary["bar"] == 0.10 and summary["compiled"] == variants["cleargrad compiled"]["ratio"]
    assert {"machine", "commit", "command", "torch"} <= found.keys()
    assert "Linear(10, 2), SGD, batch 1" in done.stdout
