"""torch.special: special functions, collected from the ops' declarations.

Read next: ops/special_functions.py.
"""

from cleargrad import ops as _ops

globals().update(_ops.functions("special"))
globals().update({name: _ops.functions("")[name] for name in ("log_softmax", "softmax")})
