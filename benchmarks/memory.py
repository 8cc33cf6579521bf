"""Peak memory of eager training, here and in PyTorch, on the programs in examples/.

    python benchmarks/memory.py [--json benchmarks/results/memory.json] [--rounds 3] [--only cnn vae]

Every run is a process of its own and makes a few steps with the example's own code. Three figures in megabytes, the
median of the rounds: "process" is the peak of the whole process; "since import" leaves out what it held after
`import torch`; "step" is by how much the peak grows when the batch is made larger. Code that is loaded at the first
use of an op, which is most of the second figure for PyTorch, cancels out of the third. Needs torch.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
from pathlib import Path

from side_by_side import LIBRARIES, arguments, compare, forget_peak, fresh, report, resident, table

EXAMPLES = Path(__file__).parent.parent / "examples"
# A few steps of each example, then what makes its batch small and what makes it large.
RUNS = {
    "regression": ("--epochs 1 --houses 40000", "--batch-size 4000", "--batch-size 40000"),
    "mlp": ("--epochs 1 --images 8000", "--batch-size 64", "--batch-size 8000"),
    "cnn": ("--epochs 1 --images 1500", "--batch-size 32", "--batch-size 512"),
    "vae": ("--epochs 1 --images 4000", "--batch-size 50", "--batch-size 4000"),
    "gan": ("--steps 3", "--batch-size 128", "--batch-size 16384"),
    "char_lstm": ("--epochs 1", "--rows 8 --piece 16", "--rows 8 --piece 128"),
    "char_gpt": ("--steps 2", "--batch-size 2", "--batch-size 96"),
    "reinforce": ("--episodes 4", "--longest 10", "--longest 100"),
    "lbfgs_series": ("--steps 1 --length 40", "--waves 60", "--waves 2000"),
    "mixed_precision": ("--epochs 1", "--batch-size 64", "--batch-size 512"),
}


def run_example(library: str, script: str, words: list[str]) -> None:
    """Runs a program under one library and prints what the process held after the import, and at most."""
    if library == "cleargrad":
        from cleargrad import compat

        compat.serve()
    import torch

    torch.set_num_threads(1)
    before = resident()
    forget_peak()
    sys.argv = [script, *words]
    sys.path[0] = os.path.dirname(script)
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(script, run_name="__main__")
    print(json.dumps([before, resident("VmHWM")]))


def figures(library: str, name: str) -> dict[str, float]:
    common, small, large = (words.split() for words in RUNS[name])
    script = str(EXAMPLES / f"{name}.py")
    _, small_peak = fresh(__file__, "--child", library, script, *common, *small)
    before, peak = fresh(__file__, "--child", library, script, *common, *large)
    return {"process": peak, "since import": peak - before, "step": peak - small_peak}


def measure(name: str, rounds: int) -> dict[str, dict[str, float]]:
    runs: dict[str, list] = {library: [] for library in LIBRARIES}
    for _ in range(rounds):
        for library in LIBRARIES:
            runs[library].append(figures(library, name))
    return {
        figure: compare(
            {library: [run[figure] for run in runs[library]] for library in LIBRARIES}, "median", 1
        )
        for figure in runs["torch"][0]
    }


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS), metavar="EXAMPLE")
    options = parser.parse_args()
    results = {name: measure(name, options.rounds) for name in options.only}
    tables = {
        figure: {name: rows[figure] for name, rows in results.items()}
        for figure in ("process", "since import", "step")
    }
    for figure, rows in tables.items():
        table(f"peak MB, {figure}", rows)
    report(options.json, unit="MB; at most 1.1 of PyTorch's is asked for", **tables)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_example(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
