"""The examples print the same under PyTorch and under cleargrad, every number to one part in a thousand."""

from __future__ import annotations

import re

import pytest

from tests.printed import ROOT, agree, run_under_both

# Shorter runs than the defaults: half of the time here goes into importing torch ten times.
SHORT_RUNS = {
    "regression.py": "--epochs 10 --houses 400",
    "mlp.py": "--epochs 3 --images 1500",
    "cnn.py": "--epochs 2 --images 600",
    "vae.py": "--epochs 4 --images 1000",
    "gan.py": "--steps 150",
    "char_lstm.py": "--epochs 10",
    "char_gpt.py": "--steps 50",
    "reinforce.py": "--episodes 40",
    "lbfgs_series.py": "--steps 3 --waves 20",
    "mixed_precision.py": "--epochs 4 --dtype float16",
}
RUNS = [*SHORT_RUNS.items(), ("mixed_precision.py", "--epochs 2 --dtype bfloat16")]


def test_every_example_is_run() -> None:
    """All but the one that asks for cleargrad by name."""
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {*SHORT_RUNS, "spiral.py"}


@pytest.mark.parametrize(("name", "arguments"), RUNS)
def test_prints_the_same_as_under_torch(name: str, arguments: str) -> None:
    ours, theirs = run_under_both(ROOT / "examples" / name, *arguments.split())
    agree(ours, theirs, relative=1e-3)


@pytest.mark.parametrize("name", SHORT_RUNS)
def test_says_how_to_run_it(name: str) -> None:
    """The first lines of an example name the file and options that exist."""
    source = (ROOT / "examples" / name).read_text(encoding="utf-8")
    command = re.search(rf"^    cleargrad run examples/{re.escape(name)}(.*)$", source, re.M)
    assert command is not None
    for option in re.findall(r"--[\w-]+", command[1]):
        assert f'"{option}"' in source
