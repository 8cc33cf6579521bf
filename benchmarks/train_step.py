"""What a training step costs: PyTorch eager and compiled, cleargrad eager and compiled, taking turns in one run.

    python benchmarks/train_step.py [--workloads gpt,mlp] [--rounds 15] [--threads 2] [--quick] [--no-torch-compile]

This is `cleargrad bench`, with the bars that were set beforehand; a whole run writes
benchmarks/results/train_step.json. Every variant lives in a process of its own, because libraries keep threads;
they are asked in turns for some steps, so that all of them see the same noise. What counts is the ratio of
medians to the best PyTorch variant, fused optimizers and torch.compile included. The spread is that of the
ratio from round to round (first and third quartile), "ratio of least" that of the quickest turns. "first" is
the time of the first three calls: cleargrad runs one, records one and runs the program. Caches of compiled code
are empty (cold) or left by an earlier process (warm). Peak memory is that of the whole process; "grown" is how
much of it came after the import. All variants must give the losses of PyTorch's eager one; a PyTorch variant
that does not is no rival. Needs torch, and a C++ compiler for torch.compile.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cleargrad.cli import main

RESULTS = Path(__file__).parent / "results" / "train_step.json"

if __name__ == "__main__":
    sys.exit(main(["bench", "--published", str(RESULTS), *sys.argv[1:]]))
