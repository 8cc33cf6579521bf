"""`pytest --gradient-doctor` on a small project of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
TESTS = """\
import pytest
import torch


def train(clears):
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        if clears:
            optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()


def test_correct():
    train(True)


def test_forgets():
    train(False)


@pytest.fixture
def trained():
    return torch.nn.Linear(3, 1)


def test_model_of_a_fixture(trained):
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
    trained(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    optimizer.step()


@pytest.mark.gradient_doctor(allow=["gradient-reused"])
def test_allowed():
    train(False)


@pytest.mark.gradient_doctor(off=True)
def test_off():
    train(False)


def test_fails_by_itself():
    train(False)
    assert 1 == 2
"""


def run(folder: Path, tests: str, *options: str) -> subprocess.CompletedProcess:
    (folder / "test_training.py").write_text(tests)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_gradient_doctor", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *options], cwd=folder, env=environment, capture_output=True, text=True)


def test_findings_fail_tests(tmp_path: Path) -> None:
    done = run(tmp_path, TESTS, "--gradient-doctor", "--strict-markers", "-rf")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 failed, 3 passed" in done.stdout
    for name in ("test_forgets", "test_model_of_a_fixture", "test_fails_by_itself"):
        assert f"FAILED test_training.py::{name}" in done.stdout
    assert "error  gradient-reused  test_training.py:12 in train" in done.stdout
    assert "fix: optimizer.zero_grad() is missing before test_training.py:11" in done.stdout
    assert "gradient doctor" in done.stdout  # the section beside the test's own failure
    assert "assert 1 == 2" in done.stdout


def test_without_the_option_nothing_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import sys\ndef pytest_unconfigure(): print('loaded', any('cleargrad' in name for name in sys.modules))\n"
    )
    done = run(tmp_path, "def test_nothing(): pass", "-s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "loaded False" in done.stdout
