"""What schedules must know of GPUs: which formulas their kernels compute. Read next: devices/cuda/program.py."""

from __future__ import annotations

from cleargrad.devices.cuda.text import readable
from cleargrad.schedule.statements import Target

MULTIPLIED = frozenset(("float16", "bfloat16", "float32", "float64"))  # by cuBLAS

# An exponential takes a GPU less time than the bytes of its result: softmax over a vocabulary is computed again on
# the way back, and never lies in memory.
REPEATED = 45

TARGET = Target(readable, {}, lambda builder, value, place: False, MULTIPLIED, REPEATED)
