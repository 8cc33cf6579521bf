"""torch._VF: functions under the name that PyTorch's own modules call them by, such as _VF.lstm."""

from cleargrad import ops as _ops

globals().update(_ops.functions(""))
