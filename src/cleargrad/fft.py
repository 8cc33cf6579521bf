"""torch.fft: Fourier transforms, collected from the ops' declarations."""

from cleargrad import ops as _ops

globals().update(_ops.functions("fft"))
