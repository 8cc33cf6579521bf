"""The tool that runs PyTorch's own samples counts what agrees, and notices what does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def op_samples() -> Any:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import op_samples

        return op_samples
    finally:
        sys.path.remove(str(ROOT / "tools"))


def info_of(name: str) -> Any:
    from torch.testing._internal.common_methods_invocations import op_db

    return next(info for info in op_db if info.name == name)


# Functions, methods, wrappers around functions, random numbers, factors that are not unique, and empty inputs.
@pytest.mark.parametrize(
    "name",
    [
        "add",
        "t",
        "einsum",
        "nn.functional.dropout",
        "linalg.svd",
        "linalg.eigh",
        "nn.functional.group_norm",
        "nn.functional.fractional_max_pool3d",
        "native_group_norm",
    ],
)
def test_samples_agree(op_samples: Any, name: str) -> None:
    row = op_samples.run(info_of(name))
    assert row["samples"] == row["agree"] > 0, row


def test_missing_op_is_called_missing(op_samples: Any) -> None:
    assert op_samples.run(info_of("hash_tensor")) == {"missing": True}


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda x, y, **k: x * 1.01 + y, "differs by up to"),
        (lambda x, y, **k: (x + y).double(), "dtype"),
        (lambda x, y, **k: (x + y)[None], "shape"),
        (lambda x, y, **k: (x + y, x), "2 results, not 1"),
        (lambda x, y, **k: x.detach() + y, "gradient of input 0"),
    ],
)
def test_differences_are_noticed(op_samples: Any, monkeypatch: Any, wrong: Any, words: str) -> None:
    monkeypatch.setattr(op_samples, "our_function", lambda info: wrong)
    row = op_samples.run(info_of("mul"))
    assert row["agree"] < row["samples"]
    monkeypatch.setattr(op_samples, "DTYPES", op_samples.DTYPES[:1])
    row = op_samples.run(info_of("add"))
    assert row["agree"] < row["samples"] and words in row["first"], row


def test_kept_result_covers_pytorchs_ops() -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    kept = json.loads((ROOT / "benchmarks" / "results" / "agreement.json").read_text())
    names = {name.partition("[")[0] for name in kept["ops"]}
    without = {info.name for info in op_db} - names
    assert not without - {"to_sparse"}  # its results are sparse: there is nothing to compare
    assert all("missing" in row or row["samples"] >= row["agree"] >= 0 for row in kept["ops"].values())
