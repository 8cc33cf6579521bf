"""What is declared besides kernels: the parts of fused ops, the table of opaque ones, samples.

In float32 the op matrix compares kernels and parts for every sample; here they meet in half precision, where
parts must round as often as kernels do.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cleargrad.core import dtype as dtypes
from cleargrad.ops.op import OPAQUE, OPS, PARTS
from cleargrad.ops.record import CaptureError, Recorder, replay
from tests.ops.cases import Case, call, cases, close, numbers, tensors_in, to_ours
from tests.ops.test_matrix import run_ours, seed

TABLE = Path(__file__).parents[2] / "docs" / "design" / "07-opaque-ops.md"
FUSED = [case for case in cases() if case.op is not None and case.op.lower is PARTS]
pytestmark = pytest.mark.filterwarnings("ignore")


def recorded(case: Case, sample: Any, kind: dtypes.dtype) -> list[np.ndarray]:
    arrays: list[np.ndarray] = []
    with Recorder() as recorder:

        def symbolic(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                tensor = to_ours(value, kind)
                arrays.append(tensor._data)
                return recorder.input(tensor)
            if isinstance(value, (list, tuple)):
                return type(value)(map(symbolic, value))
            return value

        outputs, _ = call(case.function, sample, symbolic)
        graph = recorder.finish(list(tensors_in(outputs)))
    seed()
    return replay(graph, arrays)


@pytest.mark.parametrize("kind", [dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("case", FUSED, ids=repr)
def test_half(case: Case, kind: dtypes.dtype) -> None:
    for sample in case.good():
        try:
            eager, _ = run_ours(case, sample, kind=kind)
        except (RuntimeError, NotImplementedError):
            continue  # not for half precision
        try:
            replayed = recorded(case, sample, kind)
        except CaptureError:
            continue
        except RuntimeError as failure:
            if "expected a float32" not in str(failure):  # the spec, which a bare kernel is not asked for
                raise
            continue
        for out, again in zip(tensors_in(eager), replayed, strict=True):
            assert again.dtype == out._data.dtype, f"{case}{sample}: {again.dtype}, eager {out.dtype}"
            again = again.astype(np.float32) if out.dtype is dtypes.bfloat16 else again
            close(numbers(out), again, out.dtype.name, f"{case}{sample} replayed")


def test_opaque_ops_are_listed() -> None:
    """The table of opaque ops has them all, each with the file it is in, and no other."""
    found = {op.name: op.run.__module__.rsplit(".", 1)[1] for op in OPS.values() if op.lower is OPAQUE}
    rows = (line.split("|")[1:4] for line in TABLE.read_text().splitlines() if line.startswith("| `"))
    listed = {name: file.strip(" `") for names, file, _ in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed == {name: f"{file}.py" for name, file in found.items()}


def test_import_makes_no_samples() -> None:
    """Samples are made when a test asks for them: importing the package leaves numpy.random alone."""
    program = "import sys, cleargrad; sys.exit('numpy.random' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 0
