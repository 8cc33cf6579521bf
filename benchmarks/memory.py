"""Peak memory of eager training, here and in PyTorch, on the programs in examples/.

    python benchmarks/memory.py [--json benchmarks/results/memory.json] [--rounds 3] [--only cnn vae]
    python benchmarks/memory.py --waiting       # calls that wait against calls that do not, without PyTorch

Every run is a process of its own and makes a few steps with the example's own code, on a batch that is larger than
the example's. Three figures in megabytes, the median of the rounds: "process" is the peak of the whole process;
"since import" leaves out what it held after `import torch`; "steps" leaves out, too, the machine code that both
libraries load at the first use of an op (or make, in our case), by measuring from the end of a step of another
network. Needs torch.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

from side_by_side import LIBRARIES, arguments, compare, forget_peak, fresh, report, resident, table

EXAMPLES = Path(__file__).parent.parent / "examples"
RUNS = {
    "regression": "--epochs 1 --houses 40000 --batch-size 40000",
    "mlp": "--epochs 1 --images 8000 --batch-size 8000",
    "cnn": "--epochs 1 --images 1500 --batch-size 512",
    "vae": "--epochs 1 --images 4000 --batch-size 4000",
    "gan": "--steps 3 --batch-size 16384",
    "char_lstm": "--epochs 1 --rows 8 --piece 128",
    "char_gpt": "--steps 2 --batch-size 96",
    "reinforce": "--episodes 4",
    "lbfgs_series": "--steps 1 --length 40 --waves 2000",
    "mixed_precision": "--epochs 1 --batch-size 512",
}
WAITING = ("cleargrad", "waiting")  # what --waiting compares
FIGURES = ("process", "since import", "steps")


def warm_up(torch: Any) -> None:
    """A step through layers of many kinds, small but large enough for the kernels of large arrays."""
    nn, functional = torch.nn, torch.nn.functional
    images = torch.ones(32, 4, 16, 16)
    layers = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.AvgPool2d(2), nn.Flatten())
    features = nn.Dropout()(layers(images).reshape(32, 7, 28))
    features = nn.LSTM(28, 28, batch_first=True)(nn.LayerNorm(28)(nn.Linear(28, 28)(features)))[0]
    heads = features.reshape(32, 7, 4, 7).transpose(1, 2)
    scores = functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True).flatten(1)
    loss = functional.cross_entropy(scores, torch.zeros(32, dtype=torch.int64)) + scores.sigmoid().mean()
    loss.backward()
    torch.optim.AdamW(layers.parameters()).step()


def run_example(library: str, script: str, words: list[str]) -> None:
    """Runs a program under one library and prints the figures."""
    if library in WAITING:
        from cleargrad import compat

        compat.serve()
    import torch

    torch.set_num_threads(1)
    imported = resident()
    warm_up(torch)
    if library == "waiting":
        torch.waiting()
    warm = resident()
    forget_peak()
    sys.argv = [script, *words]
    sys.path[0] = os.path.dirname(script)
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(script, run_name="__main__")
    peak = resident("VmHWM")
    print(json.dumps(dict(zip(FIGURES, [peak, peak - imported, peak - warm]))))


def measure(name: str, rounds: int, sides: tuple[str, ...]) -> dict[str, dict[str, float]]:
    runs: dict[str, list] = {library: [] for library in sides}
    for _ in range(rounds):
        for library in sides:
            script = str(EXAMPLES / f"{name}.py")
            runs[library].append(fresh(__file__, "--child", library, script, *RUNS[name].split()))
    return {
        figure: compare(
            {library: [run[figure] for run in runs[library]] for library in sides}, "median", 1, sides
        )
        for figure in FIGURES
    }


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS), metavar="EXAMPLE")
    parser.add_argument("--waiting", action="store_true", help="calls that wait, and calls that do not")
    options = parser.parse_args()
    sides = WAITING if options.waiting else LIBRARIES
    results = {name: measure(name, options.rounds, sides) for name in options.only}
    tables = {figure: {name: rows[figure] for name, rows in results.items()} for figure in FIGURES}
    for figure, rows in tables.items():
        table(f"peak MB, {figure}", rows, (*sides, "ratio"))
    asked = "at most 1.05 of calls that do not wait" if options.waiting else "at most 1.1 of PyTorch's"
    report(options.json, unit=f"MB; {asked} is asked for", **tables)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_example(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
