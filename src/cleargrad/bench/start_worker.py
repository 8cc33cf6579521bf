"""Starts a worker: `python start_worker.py WORKLOAD VARIANT THREADS`. cleargrad is imported only if it is
measured.

The folder is opened as a package by another name, because `cleargrad.bench` would import cleargrad first.
Read next: bench/worker.py.
"""

import importlib
import sys
import types
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose files are no modules of their own
    package = types.ModuleType("bench")
    package.__path__ = [str(Path(__file__).parent)]
    sys.modules["bench"] = package
    workload, variant, threads = sys.argv[1:]
    try:
        importlib.import_module("bench.worker").run_worker(workload, variant, int(threads))
    except KeyboardInterrupt:
        sys.exit(130)
