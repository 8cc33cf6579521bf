"""torch.functional: the top-level functions that PyTorch writes in Python, under their module's name.

Read next: torch_names/_VF.py.
"""

from cleargrad import ops as _ops

globals().update(_ops.functions(""))
