"""torch.utils.benchmark: how long a line of Python takes. Read next: utils/benchmark/timer.py."""

from cleargrad.utils.benchmark.compare import Compare
from cleargrad.utils.benchmark.measurement import Measurement, TaskSpec
from cleargrad.utils.benchmark.timer import Timer

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer"]
