"""Trains the examples in ways that must not matter, and compares the losses of all steps bit by bit.

    python tools/check_bits.py [--only cnn.py vae.py] [--json benchmarks/results/bits.json]

The measure is a run of single calls on one thread. The others: the same again, calls that wait with an empty cache
of machine code and with a full one, compiled steps, and calls that wait on two threads. The examples are those of
tests/compile/test_examples.py, about 200 steps each. Needs no torch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.compile.test_examples import LONG, MARK, SCRIPT  # noqa: E402

# What is compared: how example_curves.py runs, the options of `cleargrad run`, and threads.
WAYS = {
    "again": ("eager", (), 1),
    "waiting, cold": ("eager", ("--fast",), 1),
    "waiting, warm": ("eager", ("--fast",), 1),
    "compiled": ("compiled", (), 1),
    "2 threads": ("eager", ("--fast",), 2),
}


def losses(way: tuple, name: str, cache: str) -> list[str]:
    how, options, threads = way
    count = {key: str(threads) for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    script = str(ROOT / "examples" / name.strip())
    command = [sys.executable, "-m", "cleargrad", "run", *options, str(SCRIPT), how, script]
    printed = subprocess.run(
        [*command, *LONG[name].split()],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8",
        env={**os.environ, **count, "CLEARGRAD_CACHE": cache, "PYTHONIOENCODING": "utf-8"},
    ).stdout  # fmt: skip
    return printed.rpartition(MARK)[2].split()


def compare(name: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as other:
        measure = losses(WAYS["again"], name, other)
        row: dict[str, object] = {"steps": len(measure)}
        for title, way in WAYS.items():
            found = losses(way, name, other if title == "again" else cold)
            row[title] = "equal" if found == measure else "differs"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(LONG), metavar="EXAMPLE")
    parser.add_argument("--json", help="write the table here as well")
    options = parser.parse_args()
    rows = {}
    for name in options.only:
        rows[name] = row = compare(name)
        print(f"{name:20}", *[f"{title}: {value}  " for title, value in row.items()], flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps({"rows": rows}, indent=2) + "\n")
    if any("differs" in row.values() for row in rows.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
