"""torch._VF: functions under the name that PyTorch's own modules call them by, such as _VF.lstm.

Read next: torch_names/types.py.
"""

from cleargrad import ops as _ops

globals().update(_ops.functions(""))
