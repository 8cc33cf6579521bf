"""torch.nn.functional, collected from the ops' declarations.

Convolutions, pooling, activations, normalisation and losses.
"""

from cleargrad import ops as _ops

globals().update(_ops.functions("nn.functional"))
