"""torch.nn.functional, collected from the ops' declarations.

Convolutions, pooling, activations, normalisation and losses. Read next: ops/activation.py.
"""

from cleargrad import ops as _ops
from cleargrad.ops.contractions import grouped_mm as grouped_mm

globals().update(_ops.functions("nn.functional"))
