"""`cleargrad info`: facts that are there on every machine, as text and as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import cleargrad
from cleargrad.cli import info
from tests.cli.commands import start


def test_json(tmp_path: Path) -> None:
    done = start("info", "--json", CLEARGRAD_CACHE=str(tmp_path / "none"))
    found = json.loads(done.stdout)
    assert done.returncode == 0 and not any("failed" in group for group in found.values())
    assert found["software"]["cleargrad"] == cleargrad.__version__
    assert found["software"]["numpy"] == np.__version__ and found["software"]["rich"]
    assert found["software"]["LLVM"][0].isdigit() and "openblas" in found["software"]["BLAS"].lower()
    assert found["processor"]["cores"] == os.cpu_count()
    assert found["threads"]["CLEARGRAD_CACHE"] == str(tmp_path / "none")
    assert found["cache"] == {
        "folder": str(tmp_path / "none"),
        "size": "0.0 MiB",
        "kernels": 0,
        "writable": True,
    }
    assert found["optional packages"]["pytest"] and set(found["optional packages"]) == set(info.OPTIONAL)


def test_text_says_the_same() -> None:
    done = start("info")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["cleargrad", cleargrad.__version__] in lines and ["cores", str(os.cpu_count())] in lines
    assert "none: cleargrad computes on the CPU" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_vectors_are_those_of_the_compiler() -> None:
    from cleargrad.devices.cpu.llvm import jit

    facts = info.processor_facts()
    assert facts["vectors"].startswith(f"{32 * jit.lanes()} bits") and facts["registers"] == jit.registers()


def test_a_group_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(info.GROUPS, "gpu", lambda: {}[1])
    assert info.all_facts()["gpu"] == {"failed": "KeyError: 1"} and "name" in info.all_facts()["processor"]


def test_gpus_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert info.gpu_names() is None or info.gpu_names()
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!{sys.executable}\nprint('A GPU, 16384 MiB, 550.1')\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert info.gpu()["found"] == ["A GPU, 16384 MiB, 550.1"]
