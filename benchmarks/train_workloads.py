"""The training steps of benchmarks/train_step.py, for other benchmarks; they are defined in the package."""

from cleargrad.bench.workloads import WORKLOADS, Setup, Task

__all__ = ["WORKLOADS", "Setup", "Task"]
