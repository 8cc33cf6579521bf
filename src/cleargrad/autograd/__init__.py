"""torch.autograd: automatic differentiation.

node.py is the graph, walk.py the backward pass; api.py, modes.py, function.py, functional.py and gradcheck.py are
PyTorch's functions on top.
"""

from cleargrad.autograd.api import backward as backward
from cleargrad.autograd.api import grad as grad
from cleargrad.autograd.modes import (
    detect_anomaly as detect_anomaly,
)
from cleargrad.autograd.modes import (
    enable_grad as enable_grad,
)
from cleargrad.autograd.modes import (
    inference_mode as inference_mode,
)
from cleargrad.autograd.modes import (
    no_grad as no_grad,
)
from cleargrad.autograd.modes import (
    set_detect_anomaly as set_detect_anomaly,
)
from cleargrad.autograd.modes import (
    set_grad_enabled as set_grad_enabled,
)
