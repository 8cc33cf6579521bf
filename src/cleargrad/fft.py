"""torch.fft: Fourier transforms, collected from the ops' declarations. Read next: ops/fourier.py."""

from cleargrad import ops as _ops

globals().update(_ops.functions("fft"))
