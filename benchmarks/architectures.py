"""What a training step costs on nine more kinds of networks, with PyTorch and cleargrad taking turns in one run.

    python benchmarks/architectures.py [--workloads vit,unet] [--rounds 15] [--threads 2]

This is `cleargrad bench --workloads more`; a whole run writes benchmarks/results/architectures.json. All is as in
benchmarks/train_step.py, except that torch.compile is left out: it takes one to three minutes for each of them.
Needs torch.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cleargrad.cli import main

RESULTS = Path(__file__).parent / "results" / "architectures.json"

if __name__ == "__main__":
    named = any(word.startswith("--workloads") for word in sys.argv)
    words = [] if named else ["--workloads", "more"]
    sys.exit(main(["bench", "--published", str(RESULTS), "--no-torch-compile", *words, *sys.argv[1:]]))
