"""torch.signal.windows, collected from the ops' declarations. Read next: ops/windows.py."""

from cleargrad import ops as _ops

globals().update(_ops.functions("signal.windows"))
