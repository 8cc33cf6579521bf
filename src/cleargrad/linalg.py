"""torch.linalg: matrix decompositions, norms and solvers, collected from the ops' declarations."""

from cleargrad import ops as _ops

globals().update(_ops.functions("linalg"))
