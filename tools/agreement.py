"""Runs PyTorch's own test samples on both libraries: of ops (OpInfo), modules (ModuleInfo) and optimizers.

Writes how many agree, by name, to benchmarks/results/agreement.json, from which docs/support.md takes its counts.
PyTorch must be installed with what its samples need (`pip install -e ".[test]"`). Takes some minutes.
Read next: tools/op_samples.py, tools/support_table.py.

python tools/agreement.py
python tools/agreement.py --only add,linalg.svd,Conv2d,Adam      # prints, and writes nothing
python tools/agreement.py --waiting --json /tmp/waiting.json     # with calls that wait
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
os.environ.setdefault("PYTORCH_TEST_WITH_SLOW", "0")

import op_samples  # noqa: E402
import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import cleargrad  # noqa: E402
from cleargrad.bench.machine import circumstances  # noqa: E402
from tests.nn import test_module_db  # noqa: E402
from tests.optim import test_optim_db  # noqa: E402

FILE = ROOT / "benchmarks" / "results" / "agreement.json"
# Its inputs show a part of a larger memory, which a copy does not have.
LEFT_OUT = ("as_strided[partial_views]",)

Rows = dict[str, dict[str, Any]]
Wanted = Callable[[str], bool]


def name_of(info: Any) -> str:
    return info.name + (f"[{info.variant_test_name}]" if info.variant_test_name else "")


def ops(wanted: Wanted) -> Rows:
    rows = {}
    for info in op_db:
        if wanted(info.name) and name_of(info) not in LEFT_OUT:
            row = op_samples.run(info)
            if row.get("samples") != 0:
                rows[name_of(info)] = row
                show(name_of(info), row)
    return rows


def counted(checks: Iterable[Callable[[], object]]) -> dict[str, Any]:
    """How many of some checks, each of which raises where we differ, go through."""
    row: dict[str, Any] = {"samples": 0, "agree": 0}
    for check in checks:
        row["samples"] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                check()
                row["agree"] += 1
            except Exception as problem:
                row.setdefault("first", str(problem).strip().splitlines()[0])
    return row


def modules(wanted: Wanted) -> Rows:
    """Starting weights, outputs, gradients and running statistics, in float32 and float64."""
    rows = {}
    for path, info in test_module_db.INFOS.items():
        name = path.removeprefix("nn.")
        if wanted(name):
            rows[name] = counted(
                lambda info=info, case=case, dtype=dtype, mode=mode: test_module_db.compare(
                    info, case, dtype, mode, False
                )
                for dtype in test_module_db.TOLERANCE
                for mode in ((True, False) if info.train_and_eval_differ else (True,))
                for case in test_module_db.cases(info, dtype, mode)
            )
            show(name, rows[name])
    return rows


def ten_steps(info: Any, options: dict) -> None:
    """LBFGS needs a closure, so it has a test of its own."""
    if info.name == "LBFGS":
        test_optim_db.test_lbfgs(info, options, torch.float32, 1e-4)
    else:
        test_optim_db.test_ten_steps(info, options)


def optimizers(wanted: Wanted) -> Rows:
    """Every configuration: ten steps, some without gradients, then the state."""
    rows: Rows = {}
    for info in test_optim_db.optim_db:
        if not wanted(info.name):
            continue
        if info.name == "SparseAdam":  # its gradients are sparse, which cleargrad does not have
            rows[info.name] = {"missing": True}
        else:
            rows[info.name] = counted(
                lambda info=info, entry=entry: ten_steps(info, entry.kwargs)
                for entry in info.optim_inputs_func("cpu")
            )
        show(info.name, rows[info.name])
    return rows


def show(name: str, row: dict[str, Any]) -> None:
    """Progress: what agrees is overwritten where somebody watches, the rest stays."""
    text = "missing" if "missing" in row else f"{row['agree']} of {row['samples']} agree"
    stays = "missing" in row or row["agree"] < row["samples"]
    if stays or sys.stdout.isatty():
        line = f"{name}: {text}" + (f"; {row['first']}" if "first" in row else "")
        print(f"{line[:110]:<110}", end="\n" if stays or not sys.stdout.isatty() else "\r", flush=True)


def totals(rows: Rows) -> dict[str, int]:
    there = [row for row in rows.values() if "missing" not in row]
    return {
        "names": len(rows),
        "missing": len(rows) - len(there),
        "agree in all samples": sum(row["agree"] == row["samples"] for row in there),
        "samples": sum(row["samples"] for row in there),
        "samples that agree": sum(row["agree"] for row in there),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="A,B", help="some names; nothing is written then")
    parser.add_argument("--waiting", action="store_true", help="calls wait until somebody looks at a value")
    parser.add_argument("--json", type=Path, default=FILE, metavar="FILE", help="where to write the counts")
    options = parser.parse_args()
    if options.waiting:
        cleargrad.waiting()
    only = options.only.split(",") if options.only else []
    torch.set_num_threads(1)
    parts = {
        kind.__name__: kind(lambda name: not only or name in only) for kind in (ops, modules, optimizers)
    }
    found = {name: totals(rows) for name, rows in parts.items() if rows}
    print(f"{json.dumps(found, indent=2):<110}")
    if only:
        return
    facts = circumstances("python tools/agreement.py" + " --waiting" * options.waiting)
    with options.json.open("w", encoding="utf-8") as file:
        json.dump({**facts, "totals": found, **parts}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
