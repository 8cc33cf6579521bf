"""torch.linalg: matrix decompositions, norms and solvers, collected from the ops' declarations.

Read next: ops/linear_algebra.py.
"""

from cleargrad import ops as _ops
from cleargrad.errors import LinAlgError as LinAlgError

globals().update(_ops.functions("linalg"))
globals()["matmul"] = _ops.functions("")["matmul"]
