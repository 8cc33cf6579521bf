"""torch.nn.functional: convolutions, pooling, activations, normalisation, losses, collected from the ops' declarations."""

from cleargrad import ops as _ops

globals().update(_ops.functions("nn.functional"))
