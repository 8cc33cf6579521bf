"""torch._inductor: the part of PyTorch's compiler that writes kernels; here only its options.

Read next: torch_names/_inductor/config.py.
"""

from cleargrad._inductor import config as config
