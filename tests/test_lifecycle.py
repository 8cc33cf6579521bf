"""The life of a gradient, from zero_grad to step: scripts for every stage print the same as under PyTorch."""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path

import pytest

from tests.printed import CLEARGRAD, ROOT, agree, run

SCRIPTS = sorted((ROOT / "tests/lifecycle_scripts").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_prints_the_same_as_under_torch(script: Path) -> None:
    theirs = io.StringIO()
    with contextlib.redirect_stdout(theirs):
        runpy.run_path(str(script), run_name="__main__")
    # Tensors print four digits behind the point; the last may round either way.
    agree(run(script, under=CLEARGRAD), theirs.getvalue(), relative=1e-5, absolute=1.1e-4)
