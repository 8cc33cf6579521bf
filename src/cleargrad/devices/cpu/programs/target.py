"""What schedules must know of the CPU: which formulas it computes, and the ops it has kernels of its own for.

Read next: devices/cpu/programs/program.py.
"""

from __future__ import annotations

from cleargrad.devices.cpu.llvm.reading import readable
from cleargrad.devices.cpu.programs.attention import ATTENTION, written_at
from cleargrad.devices.cpu.programs.images import IMAGES
from cleargrad.schedule.statements import Target

TARGET = Target(readable, {**IMAGES, **ATTENTION}, written_at)
